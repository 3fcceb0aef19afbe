//! A dict of a snapshot, with the keys that are read, in no order.

use super::key::Key;
use crate::pickle::{TextId, Value};

/// The entries of a dict that are read, and where it was last filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) fields: Vec<(Key, Value)>,
    pub(super) position: u64,
}

/// The entries of an event's dict, when each is there and of its type: 40 bytes in place of some 200.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedEvent {
    pub(super) time_us: u64,
    pub(super) address: u64,
    pub(super) size_bytes: u64,
    pub(super) stream: u64,
    pub(super) action: TextId,
    /// Whether the address came under `device_free`, as of an out-of-memory event.
    pub(super) is_device_free: bool,
}

impl Record {
    pub(super) fn set(&mut self, key: Key, value: Value) {
        match self.fields.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => self.fields.push((key, value)),
        }
    }
}

impl PackedEvent {
    /// Packs the fields of a dict, iff nothing is lost by it.
    pub(super) fn pack(fields: impl Iterator<Item = (Key, Value)>) -> Option<Self> {
        let (mut time_us, mut address, mut size_bytes, mut stream, mut action) = (None, None, None, None, None);
        let mut is_device_free = false;
        let mut count = 0;
        for (key, value) in fields {
            count += 1;
            match key {
                Key::Action => match value {
                    Value::Text(text) => action = Some(text),
                    _ => return None,
                },
                Key::TimeUs => time_us = Some(natural(value)?),
                Key::Size => size_bytes = Some(natural(value)?),
                Key::Stream => stream = Some(natural(value)?),
                Key::Addr => address = Some(natural(value)?),
                Key::DeviceFree => {
                    is_device_free = true;
                    address = Some(natural(value)?);
                }
                _ => return None,
            }
        }
        let packed = Self {
            time_us: time_us?,
            address: address?,
            size_bytes: size_bytes?,
            stream: stream?,
            action: action?,
            is_device_free,
        };
        // All five and no more: neither a key twice nor both kinds of address.
        (count == 5).then_some(packed)
    }

    /// The fields again.
    pub(super) fn unpack(self) -> Vec<(Key, Value)> {
        let integer = |value: u64| i64::try_from(value).map_or(Value::Unsigned(value), Value::Integer);
        let address = if self.is_device_free { Key::DeviceFree } else { Key::Addr };
        vec![
            (Key::Action, Value::Text(self.action)),
            (address, integer(self.address)),
            (Key::Size, integer(self.size_bytes)),
            (Key::Stream, integer(self.stream)),
            (Key::TimeUs, integer(self.time_us)),
        ]
    }
}

/// A value that is an integer of 0 or more.
pub(super) fn natural(value: Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(number).ok(),
        Value::Unsigned(number) => Some(number),
        _ => None,
    }
}
