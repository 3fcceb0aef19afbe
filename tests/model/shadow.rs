//! What the application knows: its streams, its blocks, who used them, and which bytes they hold.

use crate::rig::{Application, Stream};
use std::collections::BTreeSet;
use stitchpool::Block;
use stitchpool::driver::host::HostDriver;
use stitchpool::driver::{DeviceId, RawEvent};

/// A stream, alive or retired.
pub struct Lane {
    pub stream: Stream,
    /// The end of its work, iff it was retired and destroyed.
    pub end: Option<RawEvent>,
    pub stalled: bool,
}

/// A live block. Streams are named by their place in the list of lanes.
pub struct Held {
    pub block: Block,
    pub owner: usize,
    /// What its bytes were last filled with.
    pub seed: u64,
    /// Who filled it.
    pub writer: usize,
    /// Who used it since, the writer included.
    pub users: BTreeSet<usize>,
    /// Who may use it.
    pub devices: BTreeSet<DeviceId>,
    /// Whether its handles are its own.
    pub own: bool,
}

impl Lane {
    pub const fn lives(&self) -> bool {
        self.end.is_none()
    }

    pub const fn device(&self) -> DeviceId {
        self.stream.raw.device
    }
}

impl Held {
    /// Queues a use on a lane that lives, ordered as an application would order it: a reader comes
    /// after the writer, a writer after all users.
    pub fn queue_use(&mut self, host: &HostDriver, lanes: &[Lane], by: usize, new_seed: Option<u64>) {
        let raw = lanes[by].stream.raw;
        let earlier = if new_seed.is_some() { self.users.clone() } else { BTreeSet::from([self.writer]) };
        for other in earlier.into_iter().filter(|&other| other != by) {
            match lanes[other].end {
                Some(end) => host.order_after(raw, end),
                None => host.order(raw, lanes[other].stream.raw),
            }
        }
        match new_seed {
            Some(seed) => {
                host.fill(raw, self.block.address, self.block.bytes, seed);
                (self.seed, self.writer, self.users) = (seed, by, BTreeSet::new());
            }
            None => host.verify(raw, self.block.address, self.block.bytes, self.seed),
        }
        self.users.insert(by);
    }
}
