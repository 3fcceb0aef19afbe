//! What an allocator held when a snapshot was taken.

/// A segment: memory that the allocator had taken from the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its first address.
    pub address: u64,
    /// Its bytes; of an expandable segment the mapped ones.
    pub total_bytes: u64,
    /// The stream it served, as recorded.
    pub stream: u64,
    /// Whether it served small requests only.
    pub is_small: bool,
    /// Whether memory is mapped into it on demand.
    pub is_expandable: bool,
    /// The private pool (of a captured graph, or a user's) it belonged to; `(0, 0)` is none.
    pub pool: (u64, u64),
    /// Its blocks, by address.
    pub blocks: Vec<Block>,
}

/// A block of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its first address.
    pub address: u64,
    /// Bytes it took up.
    pub size_bytes: u64,
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// What state it was in.
    pub state: BlockState,
}

/// What a block was doing when the snapshot was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockState {
    /// The application held it.
    Allocated,
    /// Freed by the application, still in use by another stream.
    PendingFree,
    /// Cached.
    Inactive,
}

impl BlockState {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "active_allocated" => Some(Self::Allocated),
            "active_pending_free" | "active_awaiting_free" => Some(Self::PendingFree),
            "inactive" => Some(Self::Inactive),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allocated => "active_allocated",
            Self::PendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }
}
