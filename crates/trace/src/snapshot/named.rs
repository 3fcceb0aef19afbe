//! A dict of a snapshot with what it is called in messages: asks for keys by type, and says where one is wrong.

use super::key::Key;
use super::record::natural;
use super::store::{Content, Store};
use crate::pickle::{TextId, Value};
use crate::{Error, ErrorKind, Result};

/// A dict and its path, such as `segments[3].blocks[0]`; the outermost has none.
pub(super) struct Named<'s> {
    pub(super) store: &'s Store,
    pub(super) fields: &'s [(Key, Value)],
    /// Where it, or the dict around it, was last filled.
    pub(super) position: u64,
    pub(super) path: String,
}

impl<'s> Named<'s> {
    pub(super) fn get(&self, key: Key) -> Option<Value> {
        self.fields.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// An integer of 0 or more.
    pub(super) fn natural(&self, key: Key) -> Result<u64> {
        let value = self.get(key);
        value.and_then(natural).ok_or_else(|| self.must_be(key, value, "an int of 0 or more"))
    }

    /// An integer of 0 or more, or `default` where the key is missing.
    pub(super) fn natural_or(&self, key: Key, default: u64) -> Result<u64> {
        self.get(key).map_or(Ok(default), |_| self.natural(key))
    }

    /// A bool, where the key is there.
    pub(super) fn boolean(&self, key: Key) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            other => Err(self.must_be(key, other, "a bool")),
        }
    }

    pub(super) fn text(&self, key: Key) -> Result<TextId> {
        match self.get(key) {
            Some(Value::Text(text)) => Ok(text),
            other => Err(self.must_be(key, other, "a str")),
        }
    }

    /// A stream's handle: a pointer that some versions write as a signed number; 0 where it is missing.
    pub(super) fn stream(&self) -> Result<u64> {
        match self.get(Key::Stream) {
            Some(Value::Integer(number)) => Ok(number.cast_unsigned()),
            _ => self.natural_or(Key::Stream, 0),
        }
    }

    pub(super) fn list(&self, key: Key) -> Result<&'s [Value]> {
        let value = self.get(key);
        value.and_then(|value| self.store.items(value)).ok_or_else(|| self.must_be(key, value, "a list"))
    }

    /// `value`, found in here, as a dict that messages call `path`.
    pub(super) fn inner(&self, value: Value, path: impl FnOnce() -> String) -> Result<Named<'s>> {
        let (fields, position): (&[_], _) = match self.store.content(value) {
            Content::Record(record) => (&record.fields, record.position),
            Content::BareDict => (&[], self.position),
            _ => return Err(self.wrong(format!("{} is {}, must be a dict", path(), self.store.kind(value)))),
        };
        Ok(Named { store: self.store, fields, position, path: path() })
    }

    #[cold]
    pub(super) fn must_be(&self, key: Key, found: Option<Value>, wanted: &str) -> Error {
        let separator = if self.path.is_empty() { "" } else { "." };
        let found = match found {
            None => "missing".to_owned(),
            Some(Value::Integer(number)) => number.to_string(),
            Some(value) => self.store.kind(value).to_owned(),
        };
        self.wrong(format!("{}{separator}{} is {found}, must be {wanted}", self.path, key.name()))
    }

    #[cold]
    pub(super) fn wrong(&self, reason: String) -> Error {
        Error::new(ErrorKind::WrongShape, self.position, reason)
    }
}
