//! What a caller asks for, and what it gets.

use crate::arena::ArenaId;
use crate::unit::{STRETCH_BYTES, UNIT_BYTES, bytes_of, units_of};
use stitchpool_chunks::Placement;
use stitchpool_driver::{Address, DeviceId};

/// A stream registered with a pool. An identity: the driver may give the stream's handle value to
/// another stream, the pool never gives this to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId {
    pub(crate) serial: u32,
    /// The heap that serves the stream's plain requests.
    pub(crate) home: u32,
}

impl StreamId {
    /// The identity as a number, never 0, for callers who keep it as one.
    #[must_use]
    pub const fn number(self) -> u64 {
        (self.home as u64) << 32 | self.serial as u64
    }

    /// The identity that a number stands for. One that no stream of the pool has names no stream.
    #[must_use]
    #[inline(always)]
    pub const fn of_number(number: u64) -> Self {
        Self { serial: number as u32, home: (number >> 32) as u32 }
    }
}

/// A request for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many bytes; rounded up to 512.
    pub bytes: u64,
    /// The stream whose work uses the block, and in whose order it is freed.
    pub stream: StreamId,
    /// The block's address is a multiple of this: a power of two, at most the granule.
    pub alignment_bytes: u64,
    /// Where the memory shall lie; `None`: on the stream's device.
    pub placement: Option<Placement>,
    /// Devices that may read and write it beside the stream's own and those it lies on.
    pub readers: Vec<DeviceId>,
    /// The arena that the block belongs to for its life.
    pub arena: ArenaId,
    /// Whether the block has handles of its own, so that it alone can be suspended, moved, exchanged,
    /// viewed or given other rights. Its length is rounded up to granules, and no such request is a hit.
    pub exclusive: bool,
}

impl Request {
    /// A request for `bytes` on the stream's device.
    #[must_use]
    pub const fn new(bytes: u64, stream: StreamId) -> Self {
        Self {
            bytes,
            stream,
            alignment_bytes: 512,
            placement: None,
            readers: Vec::new(),
            arena: ArenaId::DEFAULT,
            exclusive: false,
        }
    }

    /// The same, in an arena.
    #[must_use]
    pub const fn in_arena(mut self, arena: ArenaId) -> Self {
        self.arena = arena;
        self
    }

    /// The same, with handles of its own.
    #[must_use]
    pub const fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// The same, at a multiple of `bytes`.
    #[must_use]
    pub const fn aligned_to(mut self, bytes: u64) -> Self {
        self.alignment_bytes = bytes;
        self
    }

    /// The same, placed by a rule.
    #[must_use]
    pub fn placed(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// The same, open to these devices too.
    #[must_use]
    pub fn open_to(mut self, readers: &[DeviceId]) -> Self {
        self.readers = readers.to_vec();
        self
    }

    /// How many units it takes, if it is plain: any place, no readers, no alignment, the default arena, handles
    /// that it may share, and a size that can be.
    #[inline(always)]
    pub(crate) fn plain_units(&self) -> Option<u32> {
        let anywhere = self.placement.is_none() && self.readers.is_empty() && self.alignment_bytes == UNIT_BYTES;
        let plain = anywhere && self.arena.is_default() && !self.exclusive;
        if plain { units_asked(self.bytes) } else { None }
    }
}

/// How many units a request for so many bytes takes, if there can be one.
#[inline(always)]
pub(crate) fn units_asked(bytes: u64) -> Option<u32> {
    (bytes.wrapping_sub(1) < BLOCK_BYTES_MAX).then(|| units_of(bytes))
}

/// A request is at most so long: its chain lies in one stretch of addresses, and not in the last plot of it.
pub(crate) const BLOCK_BYTES_MAX: u64 = STRETCH_BYTES - (4 << 30);

/// A block: a byte range inside mapped granules. It is freed by its address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Block {
    /// Its first address.
    pub address: Address,
    /// Its length: the request rounded up to 512 bytes.
    pub bytes: u64,
}

impl Block {
    /// So many units from an address on.
    #[inline(always)]
    pub(crate) const fn of(address: u64, units: u32) -> Self {
        Self { address: Address(address), bytes: bytes_of(units) }
    }
}
