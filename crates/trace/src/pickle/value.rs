//! A value as it lies on the unpickler's stack: 16 bytes, content by number.

/// A string that the heap keeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TextId(pub(crate) u32);

/// A list, tuple or dict that the heap keeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeId(pub(crate) u32);

/// A plain value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Integer(i64),
    /// An integer of 2^63 or more.
    Unsigned(u64),
    Float(f64),
    Text(TextId),
    Node(NodeId),
    // Sound values that no trace has a use for: only their kind is kept.
    WideInteger,
    LongText,
    Binary,
    Set,
}

impl Value {
    /// What kind of value it is, in the words of Python.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Integer(_) | Self::Unsigned(_) => "an int",
            Self::Float(_) => "a float",
            Self::Text(_) => "a str",
            Self::Node(_) => "a container",
            Self::WideInteger => "an int of more than 64 bits",
            Self::LongText => "a long str",
            Self::Binary => "a bytes",
            Self::Set => "a set",
        }
    }
}
