//! Plain data pickled by hand, one value after the other and nothing memoised, and the fixtures' places.

use std::path::PathBuf;
use stitchpool_trace::{Error, Limits, Trace};

/// A plain Python value.
#[derive(Clone)]
pub(crate) enum Data {
    None,
    Bool(bool),
    Int(i64),
    Text(&'static str),
    List(Vec<Data>),
    Dict(Vec<(&'static str, Data)>),
}

impl Data {
    /// The value as a whole pickle of protocol 2.
    pub(crate) fn pickle(&self) -> Vec<u8> {
        let mut bytes = vec![0x80, 2];
        self.write(&mut bytes);
        bytes.push(b'.');
        bytes
    }

    /// The same dict with `key` set to `value`.
    pub(crate) fn with(mut self, key: &'static str, value: Data) -> Data {
        if let Data::Dict(pairs) = &mut self {
            pairs.retain(|(name, _)| *name != key);
            pairs.push((key, value));
        }
        self
    }

    /// The same dict without `key`.
    pub(crate) fn without(mut self, key: &str) -> Data {
        if let Data::Dict(pairs) = &mut self {
            pairs.retain(|(name, _)| *name != key);
        }
        self
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Data::None => bytes.push(b'N'),
            Data::Bool(value) => bytes.push(if *value { 0x88 } else { 0x89 }),
            Data::Int(value) => {
                bytes.extend([0x8a, 8]);
                bytes.extend(value.to_le_bytes());
            }
            Data::Text(text) => write_text(text, bytes),
            Data::List(items) => {
                bytes.extend(b"](");
                items.iter().for_each(|item| item.write(bytes));
                bytes.push(b'e');
            }
            Data::Dict(pairs) => {
                bytes.extend(b"}(");
                for (key, value) in pairs {
                    write_text(key, bytes);
                    value.write(bytes);
                }
                bytes.push(b'u');
            }
        }
    }
}

fn write_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.push(b'X');
    bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// An event at 1024 times `at`, of 512 bytes on the default stream.
pub(crate) fn event(action: &'static str, at: i64, time_us: i64) -> Data {
    Data::Dict(vec![
        ("action", Data::Text(action)),
        ("addr", Data::Int(at * 1024)),
        ("size", Data::Int(512)),
        ("stream", Data::Int(0)),
        ("time_us", Data::Int(time_us)),
    ])
}

/// A segment of device 0 without blocks.
pub(crate) fn segment(address: i64) -> Data {
    Data::Dict(vec![
        ("device", Data::Int(0)),
        ("address", Data::Int(address)),
        ("total_size", Data::Int(2 << 20)),
        ("stream", Data::Int(0)),
        ("blocks", Data::List(vec![])),
    ])
}

/// A snapshot of one device.
pub(crate) fn snapshot(events: Vec<Data>, segments: Vec<Data>) -> Data {
    Data::Dict(vec![("segments", Data::List(segments)), ("device_traces", Data::List(vec![Data::List(events)]))])
}

pub(crate) fn read(bytes: &[u8]) -> Result<Trace, Error> {
    Trace::read(bytes, &Limits::default())
}

/// A file of `tests/data`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub(crate) fn fixture_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}
