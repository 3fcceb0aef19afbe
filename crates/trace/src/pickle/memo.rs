//! What a pickle has numbered, to be named again. Never grows further than the pickle has come.

use super::Value;
use crate::{Error, ErrorKind, Result};

/// How far past the entries already made a pickle may number one. Picklers number densely.
const GAP_ENTRIES: usize = 1024;

/// The numbered values.
pub(crate) struct Memo {
    entries: Vec<Option<Value>>,
    puts: usize,
    limit_entries: usize,
}

impl Memo {
    pub(crate) fn new(limit_entries: usize) -> Self {
        Self { entries: Vec::new(), puts: 0, limit_entries }
    }

    /// Numbers `value` with the next number.
    #[inline]
    pub(crate) fn push(&mut self, value: &Value, position: u64) -> Result<()> {
        if self.entries.len() >= self.limit_entries {
            return Err(self.full(position));
        }
        self.entries.push(Some(*value));
        self.puts += 1;
        Ok(())
    }

    /// Numbers `value` with `index`.
    pub(crate) fn put(&mut self, index: u32, value: &Value, position: u64) -> Result<()> {
        let index = index as usize;
        if index >= self.limit_entries {
            return Err(self.full(position));
        }
        if index >= self.entries.len() {
            // A number is no reason to allocate: at most twice as many entries as were really made.
            if index > 2 * self.puts + GAP_ENTRIES {
                let reason = format!("memo entry {index} after only {} entries", self.puts);
                return Err(Error::new(ErrorKind::Malformed, position, reason));
            }
            self.entries.resize(index + 1, None);
        }
        self.entries[index] = Some(*value);
        self.puts += 1;
        Ok(())
    }

    /// The value numbered `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32, position: u64) -> Result<&Value> {
        match self.entries.get(index as usize) {
            Some(Some(value)) => Ok(value),
            _ => Err(Self::unwritten(index, position)),
        }
    }

    #[cold]
    fn unwritten(index: u32, position: u64) -> Error {
        let reason = format!("memo entry {index} is read and was never written");
        Error::new(ErrorKind::Malformed, position, reason)
    }

    #[cold]
    fn full(&self, position: u64) -> Error {
        let reason = format!("more than {} memo entries; raise Limits::memo_entries", self.limit_entries);
        Error::new(ErrorKind::LimitReached, position, reason)
    }
}
