//! What the application knows: its blocks, who used them, who may, and which bytes they hold.

use crate::case::Kind;
use crate::places::placed;
use std::collections::{BTreeMap, BTreeSet};
use stitchpool::driver::{Address, DeviceId, Rights};
use stitchpool::{Block, Growable, Lease, Pin, Placement, View};

pub type Given = BTreeMap<DeviceId, Rights>;

pub fn right(given: &Given, device: DeviceId) -> Rights {
    given.get(&device).copied().unwrap_or_default()
}

/// A part of a block that is used, moved and opened by itself: a granule, or all of a plain block.
#[derive(Clone, Debug)]
pub struct Cell {
    pub bytes: u64,
    /// What it holds, once something was written.
    pub seed: Option<u64>,
    pub rights: Given,
    pub asleep: bool,
    /// Where it lies, or will lie when it wakes. Not known of plain blocks, which share handles.
    pub device: Option<DeviceId>,
}

/// A block, live or freed and held; or a buffer.
#[derive(Debug)]
pub struct Held {
    pub block: Block,
    pub kind: Kind,
    pub owner: usize,
    pub arena: usize,
    pub live: bool,
    /// It lies in a graph's arena: graphs write it whenever they run, and nobody knows its bytes.
    pub captured: bool,
    /// By their offsets.
    pub cells: BTreeMap<u64, Cell>,
    /// The lanes that later uses come after.
    pub users: BTreeSet<usize>,
    pub base: Given,
    pub placement: Placement,
    /// Where places of a buffer were sent last.
    pub sent: BTreeMap<u64, DeviceId>,
    /// Rights that were asked for places of a buffer.
    pub asked: BTreeMap<u64, Given>,
    pub growable: Option<Growable>,
    /// Iff it was put out while memory was short, and is asleep for that alone.
    pub evicted: bool,
}

impl Held {
    pub fn at(&self, offset: u64) -> Address {
        self.block.address + offset
    }

    /// The block of the pool that a cell lies in, by its offset.
    pub const fn block_of(&self, offset: u64) -> u64 {
        match self.kind {
            Kind::Buffer => offset,
            _ => 0,
        }
    }

    /// The devices that new memory may lie on at a place of a buffer.
    pub fn homes(&self, offset: u64, granule_bytes: u64) -> Vec<DeviceId> {
        match self.sent.get(&offset) {
            Some(&device) => std::iter::once(device).chain(self.placement.fallbacks().iter().copied()).collect(),
            None => {
                placed(&self.placement, self.block.bytes, granule_bytes).swap_remove((offset / granule_bytes) as usize)
            }
        }
    }
}

/// Which cell of which block.
pub type Place = (u64, u64);

pub struct Seen {
    pub view: View,
    pub grants: Given,
    pub behind: Vec<Place>,
}

/// The place is the block's of the pool.
pub struct Leased {
    pub lease: Lease,
    pub of: Place,
}

pub struct Pinned {
    pub pin: Pin,
    pub places: Vec<Place>,
}
