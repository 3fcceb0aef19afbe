//! Captures in a life: one at a time, into an arena of its own, replayed in order.

use crate::rig::Application;
use crate::world::{GRAPH, World};
use stitchpool::Error;

impl World<'_> {
    pub fn begin(&mut self, pick: usize) -> bool {
        if self.asleep[GRAPH] || self.lanes.iter().any(|lane| lane.captured) {
            return false;
        }
        let Some(lane) = self.lane(pick) else { return false };
        // What was freed in the arena must be done before the graph first runs.
        self.host.run_all();
        let stream = self.lanes[lane].stream;
        if let Err(error) = self.pool.begin_capture(stream.id, self.arenas[GRAPH]) {
            assert!(self.refused(), "{error}");
            return true;
        }
        self.host.begin_capture(stream.raw).unwrap();
        self.lanes[lane].captured = true;
        self.captured_from = self.next;
        false
    }

    pub fn end(&mut self, aborts: bool) {
        let Some(lane) = self.lanes.iter().position(|lane| lane.captured) else { return };
        let stream = self.lanes[lane].stream;
        for (id, held) in self.blocks.iter().filter(|(_, held)| held.captured && held.owner == lane) {
            // Of an earlier capture nothing may be named in this one.
            if held.live && *id > self.captured_from {
                self.host.verify(stream.raw, held.block.address, held.block.bytes, *id);
            }
        }
        let graph = self.host.end_capture(stream.raw).unwrap();
        self.lanes[lane].captured = false;
        if aborts && self.graphs.is_empty() {
            self.pool.abort_capture(stream.id).unwrap();
        } else {
            self.pool.end_capture(stream.id).unwrap();
            self.graphs.push((graph, lane));
        }
    }

    pub fn launch(&mut self, pick: usize) {
        let sleeps = self.asleep[GRAPH] || self.lanes.iter().any(|lane| lane.captured);
        if self.graphs.is_empty() || sleeps {
            return;
        }
        let (graph, lane) = &self.graphs[pick % self.graphs.len()];
        if !self.lanes[*lane].runs() {
            return;
        }
        let raw = self.lanes[*lane].stream.raw;
        if let Some(last) = self.last.take() {
            self.host.order_after(raw, last);
            self.host.forget_mark(last);
        }
        self.host.launch(raw, graph).unwrap();
        self.last = Some(self.host.mark(raw));
    }

    pub fn release(&mut self) {
        if self.lanes.iter().any(|lane| lane.captured) {
            return;
        }
        self.graphs.clear();
        let refused = loop {
            if let Err(error) = self.pool.release_graph(self.arenas[GRAPH]) {
                break error;
            }
        };
        assert!(matches!(refused, Error::NoGraph { .. }), "{refused}");
    }
}
