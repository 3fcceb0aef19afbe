//! The changes whose calls fail, and what stands before each.

use crate::bench::{Bench, GRANULE, open_to, spec};
use std::sync::Arc;
use stitchpool_chunks::{PhysicalHandle, Piece, Result, StitchedRange};
use stitchpool_driver::{DeviceId, Rights};

/// A range `AABBBA..CC......` of handles of one to three granules, of which the first stands in
/// another range too, and handles that stand nowhere.
pub struct Stage {
    pub bench: Bench,
    pub range: StitchedRange,
    pub other: StitchedRange,
    pub spares: Vec<Arc<PhysicalHandle>>,
}

pub const RANGE: u64 = 16;

pub struct Change {
    pub name: &'static str,
    pub make: fn(&mut Stage) -> Result<()>,
}

fn piece(device: u16, granules: u64) -> Piece {
    Piece { device: DeviceId(device), bytes: granules * GRANULE }
}

impl Stage {
    pub fn new() -> Self {
        let bench = Bench::new();
        let (mut range, mut other) = (bench.range(RANGE), bench.range(RANGE));
        let shared = bench.handle(0, 2);
        range.stitch_handles(0, vec![shared.clone()], &open_to(&[0, 1])).unwrap();
        other.stitch_handles(GRANULE, vec![shared], &open_to(&[0])).unwrap();
        range.stitch(2 * GRANULE, &[piece(1, 3), piece(0, 1)], &open_to(&[0, 1])).unwrap();
        range
            .open(2 * GRANULE, 3 * GRANULE, &[stitchpool_driver::Grant { device: DeviceId(0), rights: Rights::Read }])
            .unwrap();
        range.stitch(8 * GRANULE, &[piece(2, 2)], &open_to(&[2])).unwrap();
        for granule in 0..RANGE {
            bench.write(range.at() + granule * GRANULE, 100 + granule);
        }
        let spares = vec![bench.handle(1, 2), bench.handle(0, 3), bench.handle(1, 1)];
        other.stitch_handles(4 * GRANULE, vec![spares[0].clone()], &open_to(&[0, 1])).unwrap();
        Self { bench, range, other, spares }
    }

    /// Lets all go: what is left is what the driver did not take back.
    pub fn finish(self) {
        let Self { bench, range, other, spares } = self;
        drop((range, other, spares));
        let (ledger, quarantine) = (bench.host.ledger(), bench.origin.quarantine());
        if quarantine.count() == 0 {
            assert!(ledger.is_empty(), "{ledger:?}");
        }
        for device in (0..crate::bench::DEVICES).map(DeviceId) {
            assert_eq!(ledger.physical_bytes_on(device), quarantine.physical_bytes(device), "{ledger:?}");
        }
        assert_eq!(ledger.refusals, 0, "{:?}", ledger.last_refusal);
    }
}

pub const CHANGES: &[Change] = &[
    Change { name: "reserve", make: |stage| StitchedRange::reserve(&stage.bench.origin, spec(8)).map(drop) },
    Change {
        name: "stitch new memory of two devices",
        make: |stage| stage.range.stitch(11 * GRANULE, &[piece(2, 1), piece(3, 4)], &open_to(&[2, 3])),
    },
    Change {
        name: "grow into the gap",
        make: |stage| stage.range.grow(&[piece(0, 1), piece(1, 1)], &open_to(&[0, 1])),
    },
    Change {
        name: "stitch handles that stand elsewhere too",
        make: |stage| {
            let handles = stage.spares[..2].to_vec();
            stage.range.stitch_handles(10 * GRANULE, handles, &open_to(&[1]))
        },
    },
    Change {
        name: "take from the middle",
        make: |stage| stage.range.take(2 * GRANULE, 4 * GRANULE).map(|handles| stage.spares.extend(handles)),
    },
    Change {
        name: "take all that has grown",
        make: |stage| stage.range.take(0, 6 * GRANULE).map(|handles| stage.spares.extend(handles)),
    },
    Change {
        name: "shrink",
        make: |stage| stage.range.shrink(4 * GRANULE).map(|handles| stage.spares.extend(handles)),
    },
    Change {
        name: "replace by handles of the same sizes",
        make: |stage| {
            let handles = stage.spares[..2].to_vec();
            stage.range.replace(0, handles).map(|old| stage.spares.extend(old))
        },
    },
    Change {
        name: "replace by handles of other sizes",
        make: |stage| {
            let handles = vec![stage.spares[0].clone(), stage.spares[2].clone(), stage.spares[1].clone()];
            stage.range.replace(0, handles).map(|old| stage.spares.extend(old))
        },
    },
    Change {
        name: "open to one more device",
        make: |stage| stage.range.open(8 * GRANULE, 2 * GRANULE, &open_to(&[3])),
    },
    Change {
        name: "let memory go",
        make: |stage| {
            drop(stage.range.take(2 * GRANULE, 4 * GRANULE)?);
            Ok(())
        },
    },
];
