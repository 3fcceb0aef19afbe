//! What the application knows: its blocks and views, who may do what, and what each granule holds.

use std::collections::{BTreeMap, BTreeSet};
use stitchpool::driver::{DeviceId, Grant, Rights};
use stitchpool::{Block, View};

pub type Given = BTreeMap<DeviceId, Rights>;

/// A block, live or freed and held.
#[derive(Clone, Debug)]
pub struct Held {
    pub block: Block,
    pub lane: usize,
    pub exclusive: bool,
    pub arena: bool,
    pub live: bool,
    /// For each granule, the seed of what it holds, once something was written.
    pub seeds: Vec<Option<u64>>,
    pub rights: Vec<Given>,
    /// The lanes that later uses come after; its own from the start, for the memory was used before.
    pub users: BTreeSet<usize>,
}

pub struct Seen {
    pub view: View,
    pub grants: Given,
    /// For each granule, the block and its granule.
    pub behind: Vec<(u64, usize)>,
}

pub fn device_of(lane: usize) -> DeviceId {
    DeviceId((lane % 2) as u16)
}

pub fn merge(given: &mut Given, grants: &[Grant]) {
    given.extend(grants.iter().map(|grant| (grant.device, grant.rights)));
}

pub fn right(given: &Given, device: DeviceId) -> Rights {
    given.get(&device).copied().unwrap_or_default()
}
