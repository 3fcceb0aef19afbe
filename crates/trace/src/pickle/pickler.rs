//! Writes plain data as a pickle of protocol 2, which every reader of pickles takes.

use super::opcode::*;
use std::collections::HashMap;
use std::io::{self, Write};

/// A pickle being written. Containers are begun, filled and ended by hand; strings are written once and named again.
pub(crate) struct Pickler<W> {
    sink: W,
    strings: HashMap<String, u32>,
}

impl<W: Write> Pickler<W> {
    pub(crate) fn begin(mut sink: W) -> io::Result<Self> {
        sink.write_all(&[PROTO, 2])?;
        Ok(Self { sink, strings: HashMap::new() })
    }

    pub(crate) fn end(mut self) -> io::Result<()> {
        self.sink.write_all(&[STOP])?;
        self.sink.flush()
    }

    pub(crate) fn boolean(&mut self, value: bool) -> io::Result<()> {
        self.sink.write_all(&[if value { NEWTRUE } else { NEWFALSE }])
    }

    pub(crate) fn integer(&mut self, value: u64) -> io::Result<()> {
        if let Ok(value) = u8::try_from(value) {
            return self.sink.write_all(&[BININT1, value]);
        }
        if let Ok(value) = i32::try_from(value) {
            self.sink.write_all(&[BININT])?;
            return self.sink.write_all(&value.to_le_bytes());
        }
        // Two's complement: a zero byte keeps the highest bit from being a sign.
        let length = if value >> 63 == 1 { 9 } else { 8 };
        self.sink.write_all(&[LONG1, length])?;
        self.sink.write_all(&u128::from(value).to_le_bytes()[..usize::from(length)])
    }

    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(&index) = self.strings.get(text) {
            return self.by_index(BINGET, LONG_BINGET, index);
        }
        let too_many = |_| io::Error::new(io::ErrorKind::InvalidInput, "a string or their number passes 2^32");
        let length = u32::try_from(text.len()).map_err(too_many)?;
        self.sink.write_all(&[BINUNICODE])?;
        self.sink.write_all(&length.to_le_bytes())?;
        self.sink.write_all(text.as_bytes())?;
        let index = u32::try_from(self.strings.len()).map_err(too_many)?;
        self.strings.insert(text.to_owned(), index);
        self.by_index(BINPUT, LONG_BINPUT, index)
    }

    /// An opcode about a memo entry, in its short form where the number is small enough.
    fn by_index(&mut self, short: u8, long: u8, index: u32) -> io::Result<()> {
        match u8::try_from(index) {
            Ok(index) => self.sink.write_all(&[short, index]),
            Err(_) => {
                self.sink.write_all(&[long])?;
                self.sink.write_all(&index.to_le_bytes())
            }
        }
    }

    pub(crate) fn pair(&mut self, (first, second): (u64, u64)) -> io::Result<()> {
        self.integer(first)?;
        self.integer(second)?;
        self.sink.write_all(&[TUPLE2])
    }

    pub(crate) fn begin_dict(&mut self) -> io::Result<()> {
        self.sink.write_all(&[EMPTY_DICT, MARK])
    }

    pub(crate) fn end_dict(&mut self) -> io::Result<()> {
        self.sink.write_all(&[SETITEMS])
    }

    pub(crate) fn empty_list(&mut self) -> io::Result<()> {
        self.sink.write_all(&[EMPTY_LIST])
    }

    /// A list of `items`, each written by `write`. In batches, so that a reader's stack stays low.
    pub(crate) fn list<T>(
        &mut self,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> io::Result<()>,
    ) -> io::Result<()> {
        const BATCH: usize = 1000;
        self.empty_list()?;
        for batch in items.chunks(BATCH) {
            self.sink.write_all(&[MARK])?;
            for item in batch {
                write(self, item)?;
            }
            self.sink.write_all(&[APPENDS])?;
        }
        Ok(())
    }
}
