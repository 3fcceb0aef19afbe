//! Looks at all of a case after each step and at its end: addresses, bytes, figures, and what is left.

use crate::rig::{Application, Rig};
use crate::world::World;
use stitchpool::Block;

impl World<'_> {
    /// The pool's invariants hold, no two blocks share a byte, and the figures are the shadow's.
    pub fn inspect(&self) {
        self.pool().check().unwrap();
        let mut spans: Vec<(u64, u64)> = self.blocks.iter().map(|held| span(&held.block)).collect();
        assert_disjoint("addresses", &mut spans);
        let mut own = Vec::new();
        let segments = self.blocks.iter().map(|held| {
            let segments = self.pool().segments(held.block.address, held.block.bytes).unwrap();
            assert_eq!(segments.iter().map(|segment| segment.bytes).sum::<u64>(), held.block.bytes);
            if held.own {
                assert!(segments.iter().all(|segment| segment.offset_bytes == 0), "{segments:?}");
                own.extend(segments.iter().map(|segment| segment.handle.0));
            }
            segments
        });
        let mut pieces: Vec<(u64, (u64, u64))> =
            segments.flatten().map(|s| (s.handle.0, (s.offset_bytes, s.offset_bytes + s.bytes))).collect();
        pieces.sort_unstable();
        for of_handle in pieces.chunk_by(|a, b| a.0 == b.0) {
            let mut spans: Vec<(u64, u64)> = of_handle.iter().map(|piece| piece.1).collect();
            assert_disjoint("bytes of one handle", &mut spans);
            assert!(spans.len() == 1 || !own.contains(&of_handle[0].0), "an exclusive block shares a handle");
        }
        self.inspect_buffers();
        self.compare_figures();
        self.rig.host.assert_clean();
    }

    fn compare_figures(&self) {
        let stats = self.pool().stats();
        assert_eq!((stats.allocs, stats.frees), (self.allocs, self.frees));
        assert_eq!(stats.live_blocks, self.blocks.len() as u64);
        let live_bytes: u64 = self.blocks.iter().map(|held| held.block.bytes).sum();
        assert_eq!(stats.devices.iter().map(|device| device.holdings.live_bytes).sum::<u64>(), live_bytes);
        assert!(self.case.stream_waits || stats.stream_waits == 0, "no stream may be made to wait");
        let ledger = self.rig.host.ledger();
        for device in &stats.devices {
            let held = device.holdings;
            let told = held.live_bytes + held.free_bytes + held.pending_bytes + held.stranded_bytes;
            assert!(told <= held.physical_bytes, "{held}");
            let in_use = ledger.physical_bytes_on(held.device);
            assert!(held.physical_bytes <= held.limit_bytes, "{held}");
            assert!(held.physical_bytes <= in_use, "{in_use} bytes are in use, and {held}");
            if stats.quarantined == 0 {
                assert_eq!(held.physical_bytes, in_use, "{held}");
            }
            if stats.quarantined + stats.stale_mappings == 0 {
                assert_eq!(told, held.physical_bytes, "{held}");
            }
        }
    }

    /// Frees all, lets the pool go, and finds nothing left but what the driver would not take back.
    pub fn finish(mut self) {
        self.rig.faulty.clear();
        for lane in self.lanes.iter().filter(|lane| lane.stalled) {
            self.rig.host.stall(lane.stream.raw, false).unwrap();
        }
        while !self.blocks.is_empty() {
            self.free(0, None);
        }
        self.buffers.clear();
        if self.case.calm_end {
            self.rig.host.run_all();
        }
        self.inspect();
        let quarantined = self.pool().stats();
        let Rig { host, pool, .. } = self.rig;
        drop(pool);
        host.run_all();
        self.lanes.iter().filter_map(|lane| lane.end).for_each(|end| host.forget_mark(end));
        host.assert_clean();
        let ledger = host.ledger();
        if quarantined.quarantined == 0 {
            assert!(ledger.is_empty(), "{ledger:?}");
        }
        for device in quarantined.devices {
            let left = ledger.physical_bytes_on(device.holdings.device);
            assert_eq!(left, device.holdings.quarantined_bytes, "{ledger:?}");
        }
    }
}

fn span(block: &Block) -> (u64, u64) {
    (block.address.0, block.address.0 + block.bytes)
}

fn assert_disjoint(what: &str, spans: &mut [(u64, u64)]) {
    spans.sort_unstable();
    let overlap = spans.windows(2).find(|pair| pair[0].1 > pair[1].0);
    assert!(overlap.is_none(), "{what} are in two blocks: {overlap:x?}");
}
