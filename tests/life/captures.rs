//! Captures in a life: several at once, alone or together, into arenas of their own; how they end, what they have
//! recorded, and when it runs.

use crate::case::{End, Kind};
use crate::lane::{Capture, Untold};
use crate::rig::Application;
use crate::shadow::{Cell, Given, Place, right};
use crate::world::{GRAPH, World};
use std::collections::BTreeSet;
use stitchpool::driver::host::HostGraph;
use stitchpool::driver::{DeviceId, Rights};
use stitchpool::{ArenaId, Error, Request};

const ANY: &[Kind] = &[Kind::Plain, Kind::Exclusive, Kind::Buffer];

/// What one stream has recorded.
pub struct Graph {
    work: HostGraph,
    device: DeviceId,
    arena: usize,
    /// Streams that were captured together have the same.
    number: u64,
    /// Blocks of before that it writes, and with what.
    named: Vec<(Place, u64)>,
}

impl World<'_> {
    /// The streams that the pool takes for captured into an arena.
    fn captured_into(&self, arena: usize) -> Vec<usize> {
        let into = |lane: &usize| self.lanes[*lane].end.is_none() && self.serving(*lane, 0) == arena;
        (0..self.lanes.len()).filter(into).collect()
    }

    /// Whether a block, no buffer, was made in the capture that its owner's stream is in now.
    pub fn is_recording(&self, id: u64) -> bool {
        let held = &self.blocks[&id];
        let is_block = held.kind != Kind::Buffer;
        let of = |capture: &Capture| is_block && !capture.is_broken && held.arena == capture.arena && id > capture.from;
        self.lanes[held.owner].capture.as_ref().is_some_and(of)
    }

    pub fn begin(&mut self, pick: usize, arena: usize, driver_first: bool) -> bool {
        let Some(lane) = self.lane(pick) else { return false };
        // What was freed in the arena must be done before the graph first runs.
        self.host.run_all();
        let stream = self.lanes[lane].stream;
        let joined = self.captured_into(arena).into_iter().find(|&other| other != lane);
        if driver_first {
            self.host.begin_capture(stream.raw).unwrap();
        }
        // A new capture cannot be told from one whose end the pool was not told.
        let is_taken = driver_first && self.serving(lane, 0) >= GRAPH;
        match self.pool.begin_capture(stream.id, self.arenas[arena]) {
            Ok(()) => assert!(!self.asleep[arena] && !is_taken, "it sleeps: {}", self.asleep[arena]),
            Err(error) => {
                if driver_first {
                    self.host.end_capture(stream.raw).unwrap();
                }
                let is_right = match error {
                    Error::Asleep { .. } => self.asleep[arena],
                    Error::Capturing { .. } => is_taken,
                    _ => false,
                };
                assert!(is_right || self.refused(), "{error}");
                return self.refused() && !is_right;
            }
        }
        if !driver_first {
            self.host.begin_capture(stream.raw).unwrap();
        }
        let graph = match joined {
            // Also where that one has ended and nobody has told the pool.
            Some(other) => self.lanes[other].graph().unwrap(),
            None => {
                self.counts[arena - GRAPH] += 1;
                self.next
            }
        };
        self.lanes[lane].untold = None;
        self.lanes[lane].capture =
            Some(Capture { arena, graph, from: self.next, named: Vec::new(), is_broken: false, is_seen: driver_first });
        self.next += 1;
        false
    }

    /// A capture that only the driver is told of. Its first request tells the pool, and is served from an arena of
    /// the stream's own.
    pub fn begin_untold(&mut self, pick: usize) {
        let Some(lane) = self.lane(pick).filter(|_| self.case.asks) else { return };
        self.tell_end(lane);
        self.host.run_all();
        self.faulty.clear();
        let stream = self.lanes[lane].stream;
        self.host.begin_capture(stream.raw).unwrap();
        let first = self.pool.alloc(&Request::new(1, stream.id));
        let arena = self.learn(self.pool.graph_arena(stream.id).unwrap().unwrap());
        match first {
            Ok(block) => self.pool.free(block.address).unwrap(),
            Err(Error::Asleep { .. }) => assert!(self.asleep[arena]),
            Err(error) => assert!(matches!(error, Error::OutOfMemory(_)), "{error}"),
        }
        self.counts[arena - GRAPH] += 1;
        let (graph, from, named) = (self.next, self.next, Vec::new());
        self.lanes[lane].capture = Some(Capture { arena, graph, from, named, is_broken: false, is_seen: true });
        self.next += 1;
    }

    /// The number of an arena of the pool's making.
    fn learn(&mut self, id: ArenaId) -> usize {
        if let Some(known) = self.arenas.iter().position(|&arena| arena == id) {
            return known;
        }
        self.arenas.push(id);
        self.asleep.push(false);
        self.asked.push(Given::new());
        self.counts.push(0);
        self.gaps.push(false);
        self.last.push(None);
        self.arenas.len() - 1
    }

    /// Captured work writes a block of before, whenever it runs.
    pub fn name(&mut self, lane: usize, block: usize) {
        let lane = self.lane_where(lane, |lane| lane.capture.as_ref().is_some_and(|capture| !capture.is_broken));
        let (Some(lane), Some(id)) = (lane, self.pick(block, ANY).filter(|id| !self.blocks[id].captured)) else {
            return;
        };
        let stream = self.lanes[lane].stream;
        let held = &self.blocks[&id];
        let starts = held.cells.keys().filter(|&&offset| held.block_of(offset) == offset);
        let may = |cell: &Cell| right(&cell.rights, stream.raw.device) == Rights::ReadWrite;
        if !held.cells.values().all(may)
            || !starts.clone().all(|&at| self.pool.record_use(held.at(at), stream.id).is_ok())
        {
            return;
        }
        for (&offset, cell) in &held.cells {
            self.next += 1;
            let (at, seed) = (held.at(offset), self.next);
            self.host.fill(stream.raw, at, cell.bytes, seed);
            self.host.verify(stream.raw, at, cell.bytes, seed);
            let capture = self.lanes[lane].capture.as_mut().unwrap();
            capture.named.push(((id, offset), seed));
        }
    }

    /// A capture ends, or the pool is told that one has ended long ago.
    pub fn end(&mut self, pick: usize, how: End) {
        let Some(lane) = self.lane_where(pick, |lane| lane.capture.is_some()) else {
            return (0..self.lanes.len()).filter(|lane| lane % 2 == pick % 2).for_each(|lane| self.tell_end(lane));
        };
        let capture = self.lanes[lane].capture.as_mut().unwrap();
        match how {
            End::Abort => return self.abort(lane),
            End::Break if !capture.is_broken => {
                capture.is_broken = true;
                return self.host.invalidate_capture(self.lanes[lane].stream.raw).unwrap();
            }
            End::Graph | End::Silent | End::Break => self.keep_graph(lane),
        }
        if how != End::Silent {
            self.tell_end(lane);
        }
    }

    /// The driver ends a capture; there is a graph unless something has broken it.
    fn keep_graph(&mut self, lane: usize) {
        let stream = self.lanes[lane].stream;
        for (&id, held) in self.blocks.iter().filter(|(_, held)| held.live && held.owner == lane) {
            if self.is_recording(id) {
                self.host.verify(stream.raw, held.block.address, held.block.bytes, id);
            }
        }
        let work = self.end_in_driver(lane);
        let Capture { arena, graph: number, named, is_seen, .. } = self.lanes[lane].capture.take().unwrap();
        self.lanes[lane].untold = Some(Untold { graph: number, is_seen });
        self.graphs.extend(work.map(|work| Graph { work, device: stream.raw.device, arena, number, named }));
    }

    fn end_in_driver(&mut self, lane: usize) -> Option<HostGraph> {
        let ended = self.host.end_capture(self.lanes[lane].stream.raw).ok();
        let is_broken = self.lanes[lane].capture.as_ref().unwrap().is_broken;
        assert_eq!(ended.is_none(), is_broken, "only what the application breaks is broken");
        self.refusals += u64::from(is_broken);
        ended
    }

    /// All that was captured together is given up.
    fn abort(&mut self, lane: usize) {
        let Capture { arena, graph, .. } = self.lanes[lane].capture.as_ref().unwrap();
        let (arena, graph) = (*arena, *graph);
        let together = self.captured_into(arena);
        self.pool.abort_capture(self.lanes[lane].stream.id).unwrap();
        for lane in together {
            if self.lanes[lane].capture.is_some() {
                self.end_in_driver(lane);
            }
            (self.lanes[lane].capture, self.lanes[lane].untold) = (None, None);
        }
        self.count_out(arena);
        self.graphs.retain(|kept| kept.number != graph);
    }

    /// A graph of an arena is gone. After the last, what was freed asleep there concerns nobody.
    fn count_out(&mut self, arena: usize) {
        self.counts[arena - GRAPH] -= 1;
        self.gaps[arena - GRAPH] &= self.counts[arena - GRAPH] > 0;
    }

    /// The pool hears that a capture has ended, if it has not.
    pub fn tell_end(&mut self, lane: usize) {
        if self.lanes[lane].untold.take().is_some() {
            self.pool.end_capture(self.lanes[lane].stream.id).unwrap();
        }
    }

    pub fn launch(&mut self, pick: usize, lane: usize) {
        let Some(index) = pick.checked_rem(self.graphs.len()) else { return };
        let Graph { device, arena, named, .. } = &self.graphs[index];
        let (arena, named) = (*arena, named.clone());
        let Some(lane) = self.lane_where(lane, |lane| lane.runs() && lane.device() == *device) else { return };
        let awake = self
            .blocks
            .values()
            .filter(|held| held.arena == arena)
            .all(|held| held.cells.values().all(|it| !it.asleep));
        if self.asleep[arena]
            || self.gaps[arena - GRAPH]
            || !awake
            || !named.iter().all(|(place, _)| self.may_write(*place, lane))
        {
            return;
        }
        let stream = self.lanes[lane].stream;
        for &((id, offset), _) in &named {
            let held = &self.blocks[&id];
            if self.pool.record_use(held.at(held.block_of(offset)), stream.id).is_err() {
                return;
            }
        }
        if let Some(last) = self.last[arena - GRAPH].take() {
            self.host.order_after(stream.raw, last);
            self.host.forget_mark(last);
        }
        for id in named.iter().map(|((id, _), _)| *id).collect::<BTreeSet<u64>>() {
            self.order_behind(id, lane);
        }
        for &((id, offset), seed) in &named {
            let cell = self.blocks.get_mut(&id).unwrap().cells.get_mut(&offset);
            cell.unwrap().seed = Some(seed);
        }
        self.host.launch(stream.raw, &self.graphs[index].work).unwrap();
        self.last[arena - GRAPH] = Some(self.host.mark(stream.raw));
    }

    /// Whether a lane's work may write a cell of a live block now.
    fn may_write(&self, (id, offset): Place, lane: usize) -> bool {
        let Some(held) = self.blocks.get(&id).filter(|held| held.live) else { return false };
        let may = |cell: &Cell| !cell.asleep && right(&cell.rights, self.lanes[lane].device()) == Rights::ReadWrite;
        held.cells.get(&offset).is_some_and(may) && self.can_use(id, lane)
    }

    /// All graphs of an arena go; the last stays while it is being captured.
    pub fn release(&mut self, arena: usize) {
        self.graphs.retain(|graph| graph.arena != arena);
        let is_open = !self.captured_into(arena).is_empty();
        loop {
            let count = self.counts[arena - GRAPH];
            match self.pool.release_graph(self.arenas[arena]) {
                Ok(()) => self.count_out(arena),
                Err(Error::NoGraph { .. }) => return assert_eq!(count, 0),
                Err(Error::Capturing { .. }) => return assert!(count == 1 && is_open),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
