//! Captures among everything else, at random: requests, frees and uses on captured and other streams,
//! captures into shared arenas, joined, ended, aborted, replays anywhere, releases, trims, and progress.

use crate::rig::{Application, GRANULE, Rig, Stream, cases};
use crate::{seed, tight};
use proptest::prelude::*;
use stitchpool::driver::host::HostGraph;
use stitchpool::driver::{DeviceId, RawEvent, RawStream};
use stitchpool::{ArenaId, Block, Error, Request};

const GRANULES: u64 = 14;
const STREAMS: usize = 4;
const ARENAS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { stream: usize, granules: u64 },
    Free { pick: usize },
    Share { pick: usize, stream: usize },
    Begin { stream: usize, arena: usize },
    End { stream: usize },
    Abort { stream: usize, breaks: bool },
    Launch { pick: usize, stream: usize },
    Release { arena: usize },
    Advance { stream: usize, items: u64 },
    Trim { waits: bool },
    Elapse,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stream = || 0..STREAMS;
    let step = prop_oneof![
        8 => (stream(), 1..5_u64).prop_map(|(stream, granules)| Step::Alloc { stream, granules }),
        6 => (0..12_usize).prop_map(|pick| Step::Free { pick }),
        2 => (0..12_usize, stream()).prop_map(|(pick, stream)| Step::Share { pick, stream }),
        3 => (stream(), 0..ARENAS).prop_map(|(stream, arena)| Step::Begin { stream, arena }),
        3 => stream().prop_map(|stream| Step::End { stream }),
        1 => (stream(), any::<bool>()).prop_map(|(stream, breaks)| Step::Abort { stream, breaks }),
        4 => (0..8_usize, stream()).prop_map(|(pick, stream)| Step::Launch { pick, stream }),
        2 => (0..ARENAS).prop_map(|arena| Step::Release { arena }),
        4 => (stream(), 1..5_u64).prop_map(|(stream, items)| Step::Advance { stream, items }),
        1 => any::<bool>().prop_map(|waits| Step::Trim { waits }),
        1 => Just(Step::Elapse),
    ];
    prop::collection::vec(step, 1..160)
}

/// A live block: whose, and in which capture it was allocated.
#[derive(Clone, Copy)]
struct Held {
    block: Block,
    owner: usize,
    capture: Option<usize>,
}

struct World {
    rig: Rig,
    /// The last one is the legacy default stream, which cannot be captured.
    streams: [Stream; STREAMS],
    arenas: [ArenaId; ARENAS],
    /// The open capture of each stream: its number and its arena.
    open: [Option<(usize, usize)>; STREAMS],
    captures: usize,
    blocks: Vec<Held>,
    graphs: Vec<(HostGraph, usize)>,
    /// The end of the last replay in each arena: the next comes after it, as their captures' owner sees to.
    last: [Option<RawEvent>; ARENAS],
    refusals: u64,
    now_us: u64,
}

impl World {
    fn new() -> Self {
        let rig = tight(GRANULES);
        let legacy = RawStream { device: DeviceId(0), value: 0 };
        let streams = std::array::from_fn(|index| match index {
            _ if index + 1 == STREAMS => Stream { raw: legacy, id: rig.pool.register(legacy).unwrap() },
            _ => rig.stream(0),
        });
        let arenas = std::array::from_fn(|index| rig.arena(&format!("graph {index}")));
        let (blocks, graphs) = (Vec::new(), Vec::new());
        let (open, last) = ([None; STREAMS], [None; ARENAS]);
        Self { rig, streams, arenas, open, captures: 0, blocks, graphs, last, refusals: 0, now_us: 0 }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Alloc { stream, granules } => self.alloc(stream, granules),
            Step::Free { pick } if pick < self.blocks.len() => self.free(pick),
            Step::Share { pick, stream } if pick < self.blocks.len() => self.share(self.blocks[pick], stream),
            Step::Begin { stream, arena } if self.open[stream].is_none() && stream + 1 < STREAMS => {
                self.rig.begin(&self.streams[stream], self.arenas[arena]);
                self.open[stream] = Some((self.captures, arena));
                self.captures += 1;
            }
            Step::End { stream } => self.end(stream),
            Step::Abort { stream, breaks } => self.abort(stream, breaks),
            Step::Launch { pick, stream } if pick < self.graphs.len() && self.open[stream].is_none() => {
                self.launch(pick, stream);
            }
            Step::Release { arena } => self.release(arena),
            Step::Advance { stream, items } => drop(self.rig.host.advance(self.streams[stream].raw, items).unwrap()),
            Step::Trim { waits: true } => drop(self.rig.pool.trim_and_wait().unwrap()),
            Step::Trim { waits: false } => drop(self.rig.pool.trim()),
            Step::Elapse => {
                self.now_us += 5_000;
                self.rig.host.set_now_us(self.now_us);
            }
            Step::Free { .. } | Step::Share { .. } | Step::Begin { .. } | Step::Launch { .. } => {}
        }
    }

    fn alloc(&mut self, owner: usize, granules: u64) {
        let stream = self.streams[owner];
        match self.rig.pool.alloc(&Request::new(granules * GRANULE, stream.id)) {
            Ok(block) => {
                self.rig.host.fill(stream.raw, block.address, block.bytes, seed(&stream, &block));
                self.blocks.push(Held { block, owner, capture: self.open[owner].map(|(capture, _)| capture) });
            }
            Err(Error::OutOfMemory(shortage)) => {
                assert_eq!(shortage.capturing, self.open[owner].is_some());
                let used: u64 = self.blocks.iter().map(|held| held.block.bytes / GRANULE).sum();
                let calm = self.open.iter().all(Option::is_none) && self.graphs.is_empty();
                assert!(!calm || used + granules > GRANULES, "{shortage}");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn free(&mut self, pick: usize) {
        let held = self.blocks.swap_remove(pick);
        // Captured work may name only what its own capture has written; what a replay writes is read there.
        if held.capture == self.open[held.owner].map(|(capture, _)| capture) {
            let stream = &self.streams[held.owner];
            self.rig.read(stream, &held.block, stream);
        }
        self.rig.free(&held.block);
    }

    fn share(&self, held: Held, stream: usize) {
        self.rig.pool.record_use(held.block.address, self.streams[stream].id).unwrap();
        let eager = held.capture.is_none() && self.open[held.owner].is_none() && self.open[stream].is_none();
        if eager {
            self.rig.host.order(self.streams[stream].raw, self.streams[held.owner].raw);
            self.rig.read(&self.streams[stream], &held.block, &self.streams[held.owner]);
        }
    }

    fn end(&mut self, stream: usize) {
        if let Some((_, arena)) = self.open[stream].take() {
            self.graphs.push((self.rig.end(&self.streams[stream]), arena));
        }
    }

    fn abort(&mut self, stream: usize, breaks: bool) {
        let Some((_, arena)) = self.open[stream] else { return };
        // A stream that joined and has ended already has given a part of the same graph.
        let joined: Vec<usize> =
            (0..STREAMS).filter(|&other| self.open[other].is_some_and(|(_, of)| of == arena)).collect();
        if self.graphs.iter().any(|&(_, of)| of == arena) {
            return;
        }
        if breaks {
            self.rig.host.invalidate_capture(self.streams[stream].raw).unwrap();
        }
        self.rig.pool.abort_capture(self.streams[stream].id).unwrap();
        for other in joined {
            let ended = self.rig.host.end_capture(self.streams[other].raw);
            let broken = breaks && other == stream;
            assert_eq!(ended.is_err(), broken, "only what the application breaks is broken");
            self.refusals += u64::from(broken);
            self.open[other] = None;
        }
    }

    fn launch(&mut self, pick: usize, stream: usize) {
        let (graph, arena) = &self.graphs[pick];
        let raw = self.streams[stream].raw;
        if self.open.iter().any(Option::is_some) && stream + 1 == STREAMS {
            return;
        }
        if let Some(last) = self.last[*arena].take() {
            self.rig.host.order_after(raw, last);
            self.rig.host.forget_mark(last);
        }
        self.rig.host.launch(raw, graph).unwrap();
        self.last[*arena] = Some(self.rig.host.mark(raw));
    }

    fn release(&mut self, arena: usize) {
        if self.open.iter().flatten().any(|&(_, of)| of == arena) {
            return;
        }
        self.graphs.retain(|&(_, of)| of != arena);
        while self.rig.pool.release_graph(self.arenas[arena]).is_ok() {}
    }

    fn inspect(&self) {
        self.rig.pool.check().unwrap();
        let held = self.rig.pool.stats().devices[0].holdings;
        let told = held.live_bytes + held.free_bytes + held.pending_bytes + held.stranded_bytes + held.pinned_bytes;
        assert!(told <= held.physical_bytes, "{held}");
        let ledger = self.rig.host.ledger();
        assert_eq!(ledger.refusals, self.refusals, "{:?}", ledger.last_refusal);
    }

    fn finish(mut self) {
        (0..STREAMS).for_each(|stream| self.end(stream));
        (0..ARENAS).for_each(|arena| self.release(arena));
        while !self.blocks.is_empty() {
            self.free(0);
        }
        self.last.iter().flatten().for_each(|&last| self.rig.host.forget_mark(last));
        self.rig.host.run_all();
        self.rig.pool.trim_and_wait().unwrap();
        assert_eq!(self.rig.pool.stats().devices[0].holdings.physical_bytes, 0);
        for arena in self.arenas {
            self.rig.pool.dissolve(arena).unwrap();
        }
        self.inspect();
        let Rig { host, pool, .. } = self.rig;
        drop(pool);
        let tally = stitchpool::driver::Kernels::tally(&*host).unwrap();
        assert_eq!((tally.faults, tally.wrong_bytes), (Vec::new(), 0));
        assert_eq!(host.ledger().handles, 0);
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn graphs_and_everything_else_keep_out_of_each_others_memory(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.inspect();
        }
        world.finish();
    }
}
