//! Who uses a heap: a stream, for one kind of place. It knows no memory.

use crate::arena::ArenaId;
use crate::clock::Clock;
use std::sync::Arc;
use stitchpool_chunks::Placement;
use stitchpool_driver::{DeviceId, Grant};

/// What all blocks of a heap have in common, so that a hit need not look at it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct HeapKey {
    pub(crate) serial: u32,
    pub(crate) arena: ArenaId,
    pub(crate) placement: Placement,
    /// Who may read and write, beside the stream's device and those of the placement.
    pub(crate) readers: Vec<DeviceId>,
    /// All blocks have this size, because the placement is exact; `None`: any size.
    pub(crate) block_bytes: Option<u64>,
    /// Each block has handles of its own, and a chain.
    pub(crate) exclusive: bool,
}

/// Who uses a heap now.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) key: HeapKey,
    pub(crate) clock: Arc<Clock>,
    pub(crate) grants: Arc<[Grant]>,
}

impl Tenant {
    /// Whether what the stream asks for without naming an arena is served elsewhere now.
    pub(crate) fn is_diverted(&self) -> bool {
        self.key.arena.is_default() && self.clock.is_captured()
    }
}
