//! Streams of a life, alive or retired, and whether they are being captured.

use crate::rig::{Application, Stream};
use crate::shadow::Place;
use crate::world::{GRAPH, World};
use stitchpool::ArenaId;
use stitchpool::driver::{DeviceId, RawEvent, Rights};

/// A stream, alive or retired.
pub struct Lane {
    pub stream: Stream,
    /// The end of its work, iff it was retired and destroyed.
    pub end: Option<RawEvent>,
    /// Iff it is being captured.
    pub capture: Option<Capture>,
    /// Iff a capture of it has ended, and nobody has told the pool.
    pub untold: Option<Untold>,
}

/// A capture that is open in the driver.
pub struct Capture {
    pub arena: usize,
    /// Streams that are captured together have the same.
    pub graph: u64,
    /// Blocks that were made in it have higher numbers.
    pub from: u64,
    /// Blocks of before that its work writes, and with what.
    pub named: Vec<(Place, u64)>,
    /// Whether it can only be ended, without a graph.
    pub is_broken: bool,
    /// Whether the pool has seen it in the driver: it then sees its end there too.
    pub is_seen: bool,
}

/// A capture whose end nobody has told the pool.
#[derive(Clone, Copy)]
pub struct Untold {
    pub graph: u64,
    pub is_seen: bool,
}

impl Lane {
    pub const fn device(&self) -> DeviceId {
        self.stream.raw.device
    }

    /// The graph that it is captured for, as far as the pool was told.
    pub fn graph(&self) -> Option<u64> {
        self.capture.as_ref().map(|capture| capture.graph).or(self.untold.map(|untold| untold.graph))
    }

    /// Whether work can be queued on it that runs by itself.
    pub const fn runs(&self) -> bool {
        self.end.is_none() && self.capture.is_none()
    }
}

impl World<'_> {
    /// A lane whose work runs.
    pub fn lane(&self, pick: usize) -> Option<usize> {
        self.lane_where(pick, Lane::runs)
    }

    pub fn lane_where(&self, pick: usize, fits: impl Fn(&Lane) -> bool) -> Option<usize> {
        let found: Vec<usize> = (0..self.lanes.len()).filter(|&lane| fits(&self.lanes[lane])).collect();
        (!found.is_empty()).then(|| found[pick % found.len()])
    }

    /// Whether any stream is being captured.
    pub fn is_capturing(&self) -> bool {
        self.lanes.iter().any(|lane| lane.capture.is_some())
    }

    /// Whether the pool may take a stream for captured: one is, or the pool cannot know that its capture is over.
    pub fn may_seem_capturing(&self) -> bool {
        self.is_capturing() || self.lanes.iter().any(|lane| lane.untold.is_some_and(|untold| !untold.is_seen))
    }

    /// The arena that the pool serves a lane's requests from that name this one.
    pub fn serving(&self, lane: usize, arena: usize) -> usize {
        let graphs = |of: ArenaId| (GRAPH..).find(|&arena| self.arenas[arena] == of).unwrap();
        let captured = || self.pool.graph_arena(self.lanes[lane].stream.id).unwrap();
        if arena > 0 { arena } else { captured().map_or(0, graphs) }
    }

    /// What a request comes to, and the arena that serves it. Where the driver is asked, the pool may learn with it
    /// that a capture has begun or ended.
    pub fn served<T>(&self, lane: usize, arena: usize, request: impl FnOnce() -> T) -> (T, usize) {
        let before = self.serving(lane, arena);
        let outcome = request();
        (outcome, if self.case.asks { self.serving(lane, arena) } else { before })
    }

    pub fn register(&mut self, device: u16) -> bool {
        let raw = self.host.new_stream(device);
        match self.pool.register(raw) {
            Ok(id) => {
                if self.case.open {
                    self.open_to(DeviceId(device));
                }
                self.lanes.push(Lane { stream: Stream { raw, id }, end: None, capture: None, untold: None });
                false
            }
            Err(error) => {
                self.host.destroy(raw);
                self.excuse(&error)
            }
        }
    }

    /// A device has a stream: what is open to all is to it too, where nothing else was asked for.
    fn open_to(&mut self, device: DeviceId) {
        for held in self.blocks.values_mut() {
            let of_arena = self.asked[held.arena].get(&device);
            held.base.insert(device, Rights::ReadWrite);
            for (offset, cell) in &mut held.cells {
                let asked = held.asked.get(offset).and_then(|asked| asked.get(&device));
                cell.rights.insert(device, asked.or(of_arena).copied().unwrap_or(Rights::ReadWrite));
            }
        }
    }

    pub fn retire(&mut self, pick: usize) -> bool {
        let Some(lane) = self.lane(pick) else { return false };
        let Stream { raw, id } = self.lanes[lane].stream;
        if let Err(error) = self.pool.retire(id) {
            return self.excuse(&error);
        }
        self.lanes[lane].end = Some(self.host.mark(raw));
        self.lanes[lane].untold = None;
        self.host.destroy(raw);
        false
    }
}
