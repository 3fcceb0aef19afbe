//! The operations whose calls fail: what comes before each, and the operation itself.

use crate::rig::{GRANULE, Shape, granule_handles};
use crate::stage::Stage;
use stitchpool::chunks::Piece;
use stitchpool::driver::DeviceId;
use stitchpool::{Placement, Request, Result, Settings, Stats};

/// One operation.
pub struct Scenario {
    pub name: &'static str,
    pub shape: Shape,
    pub settings: fn() -> Settings,
    pub prepare: fn(&mut Stage),
    pub act: fn(&mut Stage) -> Result<()>,
    /// What tells, from the figures before and after, that the operation was what its name says.
    pub did: fn(&Stats, &Stats) -> bool,
}

const ONE: Shape = Shape::new(1, 64);
const TIGHT: Shape = Shape::new(1, 12);
const FOUR: Shape = Shape::new(4, 16);

fn small_handles() -> Settings {
    granule_handles(GRANULE)
}

fn no_stream_waits() -> Settings {
    Settings { stream_waits: false, ..small_handles() }
}

fn nothing(_: &mut Stage) {}

fn created(before: &Stats, after: &Stats) -> u64 {
    after.handles_created - before.handles_created
}

fn aliased(before: &Stats, after: &Stats) -> u64 {
    after.handles_aliased - before.handles_aliased
}

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "the first block",
        shape: ONE,
        settings: small_handles,
        prepare: nothing,
        act: |stage| stage.alloc(0, 5 * GRANULE + 512),
        did: |a, b| created(a, b) == 6,
    },
    Scenario {
        name: "a block behind the free tail of a chain",
        shape: ONE,
        settings: small_handles,
        prepare: |stage| {
            stage.alloc(0, 4 * GRANULE).unwrap();
            stage.free(0);
        },
        act: |stage| stage.alloc(0, 7 * GRANULE),
        did: |a, b| created(a, b) == 3,
    },
    Scenario {
        name: "a block of handles of the own heap",
        shape: TIGHT,
        settings: small_handles,
        prepare: |stage| {
            (0..3).for_each(|_| stage.alloc(0, 4 * GRANULE).unwrap());
            stage.free(2);
            stage.free(0);
        },
        act: |stage| stage.alloc(0, 7 * GRANULE),
        did: |a, b| created(a, b) == 0 && aliased(a, b) == 3,
    },
    Scenario {
        name: "a block of handles that another stream is past",
        shape: TIGHT,
        settings: small_handles,
        prepare: |stage| {
            stage.add_stream(0);
            (0..3).for_each(|_| stage.alloc(0, 4 * GRANULE).unwrap());
            stage.free(2);
            stage.free(0);
            stage.pass();
        },
        act: |stage| stage.alloc(1, 7 * GRANULE),
        did: |a, b| aliased(a, b) == 7 && b.stream_waits == 0,
    },
    Scenario {
        name: "a block of handles that another stream still uses",
        shape: TIGHT,
        settings: small_handles,
        prepare: |stage| {
            stage.add_stream(0);
            (0..3).for_each(|_| stage.alloc(0, 4 * GRANULE).unwrap());
            stage.free(2);
            stage.free(0);
        },
        act: |stage| stage.alloc(1, 7 * GRANULE),
        did: |a, b| aliased(a, b) == 7 && b.stream_waits == 1,
    },
    Scenario {
        name: "a block of handles that the CPU must wait for",
        shape: TIGHT,
        settings: no_stream_waits,
        prepare: |stage| {
            stage.add_stream(0);
            (0..3).for_each(|_| stage.alloc(0, 4 * GRANULE).unwrap());
            stage.free(2);
            stage.free(0);
        },
        act: |stage| stage.alloc(1, 7 * GRANULE),
        did: |a, b| aliased(a, b) == 7 && b.cpu_waits > 0,
    },
    Scenario {
        name: "a block of handles that wait for a third stream",
        shape: TIGHT,
        settings: small_handles,
        prepare: |stage| {
            let user = stage.add_stream(0);
            stage.add_stream(0);
            (0..3).for_each(|_| stage.alloc(0, 4 * GRANULE).unwrap());
            stage.share(2, user);
            stage.share(0, user);
            stage.free(2);
            stage.free(0);
        },
        act: |stage| stage.alloc(2, 7 * GRANULE),
        did: |a, b| aliased(a, b) == 7 && b.stream_waits == 2,
    },
    Scenario {
        name: "a block that spills",
        shape: Shape::new(2, 12),
        settings: small_handles,
        prepare: |stage| stage.alloc(0, 8 * GRANULE).unwrap(),
        act: |stage| stage.place(0, 7 * GRANULE, Placement::Spill(vec![DeviceId(0), DeviceId(1)])),
        did: |_, b| b.devices[1].holdings.physical_bytes == 3 * GRANULE,
    },
    Scenario {
        name: "a block that spills to a device of coarser granules",
        shape: Shape { first_granule_bytes: GRANULE / 16, ..Shape::new(2, 12) },
        settings: small_handles,
        prepare: |stage| stage.alloc(0, 8 * GRANULE + 512).unwrap(),
        act: |stage| stage.place(0, 7 * GRANULE + 512, Placement::Spill(vec![DeviceId(0), DeviceId(1)])),
        did: |_, b| b.devices[1].holdings.physical_bytes >= 4 * GRANULE,
    },
    Scenario {
        name: "stripes over four devices",
        shape: FOUR,
        settings: small_handles,
        prepare: |stage| stage.alloc(0, 3 * GRANULE).unwrap(),
        act: |stage| {
            let devices = (0..4).map(DeviceId).collect();
            stage.place(0, 9 * GRANULE, Placement::RoundRobin { devices, stripe_bytes: 2 * GRANULE })
        },
        did: |_, b| b.devices.iter().all(|device| device.holdings.physical_bytes >= 2 * GRANULE),
    },
    Scenario {
        name: "shards over four devices, of stolen and new handles",
        shape: FOUR,
        settings: small_handles,
        prepare: |stage| {
            (0..3).for_each(|_| stage.alloc(0, 5 * GRANULE).unwrap());
            stage.free(2);
            stage.free(0);
        },
        act: |stage| {
            let piece = |device| Piece { device: DeviceId(device), bytes: 3 * GRANULE };
            stage.place(0, 12 * GRANULE, Placement::Shards((0..4).map(piece).collect()))
        },
        did: |a, b| created(a, b) == 9 && aliased(a, b) == 3,
    },
    Scenario {
        name: "an exclusive block, for which larger free handles are cut",
        shape: Shape::new(1, 16),
        settings: Settings::default,
        prepare: |stage| {
            let request = Request::new(16 * GRANULE, stage.streams[0].id);
            drop(stage.rig.pool.growable_in_steps(&request, 16 * GRANULE, 8 * GRANULE).unwrap());
        },
        act: |stage| {
            let request = Request::new(11 * GRANULE, stage.streams[0].id).exclusive();
            stage.request(0, &request)
        },
        did: |a, b| aliased(a, b) == 1 && created(a, b) > 0 && b.handles_released == 1,
    },
    Scenario {
        name: "a new growable buffer",
        shape: ONE,
        settings: small_handles,
        prepare: nothing,
        act: |stage| stage.buffer(0, 5, 20),
        did: |a, b| created(a, b) == 5,
    },
    Scenario {
        name: "a buffer that grows by stolen handles over two gaps and what it gave back",
        shape: TIGHT,
        settings: small_handles,
        prepare: |stage| {
            stage.add_stream(0);
            stage.buffer(0, 3, 20).unwrap();
            stage.back(6, 3).unwrap();
            stage.give_back(1, 1);
            stage.give_back(8, 1);
            stage.alloc(1, 6 * GRANULE).unwrap();
            stage.free(0);
        },
        act: |stage| stage.back(0, 12),
        did: |a, b| aliased(a, b) == 6 && created(a, b) == 2 && b.live_blocks == 12,
    },
    Scenario {
        name: "a buffer that grows where its memory was stolen",
        shape: TIGHT,
        settings: small_handles,
        prepare: |stage| {
            stage.buffer(0, 10, 20).unwrap();
            stage.give_back(2, 6);
            stage.alloc(0, 8 * GRANULE).unwrap();
            assert_eq!(stage.rig.pool.stats().stale_mappings, 6);
            stage.free(0);
        },
        act: |stage| stage.back(0, 10),
        did: |a, b| aliased(a, b) == 6 && b.cpu_waits > 0 && b.stale_mappings == 6,
    },
    Scenario {
        name: "a trim",
        shape: ONE,
        settings: small_handles,
        prepare: free_and_stale,
        act: |stage| stage.trim(),
        did: |a, b| b.handles_released > a.handles_released && b.stale_mappings == 0,
    },
    Scenario {
        name: "a trim that waits",
        shape: ONE,
        settings: small_handles,
        prepare: free_and_stale,
        act: |stage| {
            stage.rig.pool.trim_and_wait().and_then(|trimmed| trimmed.refusal.map_or(Ok(()), |e| Err(e.into())))
        },
        did: |a, b| b.handles_released > a.handles_released && b.stale_mappings == 0,
    },
    Scenario {
        name: "frees whose ticks take stale mappings down",
        shape: ONE,
        settings: small_handles,
        prepare: |stage| {
            (0..40).for_each(|_| stage.alloc(0, 512).unwrap());
            stage.add_stream(0);
            free_and_stale(stage);
        },
        act: |stage| {
            for step in 0..40_u64 {
                stage.rig.host.set_now_us(step * 10_000);
                stage.free(0);
                stage.rig.host.run_all();
                stage.alloc(0, 512)?;
            }
            Ok(())
        },
        did: |a, b| a.stale_mappings > 0 && b.stale_mappings == 0,
    },
    Scenario {
        name: "a new stream",
        shape: Shape::new(2, 12),
        settings: small_handles,
        prepare: nothing,
        act: |stage| stage.register(1),
        did: |a, b| a.misses == b.misses,
    },
    Scenario {
        name: "a stream that is retired",
        shape: TIGHT,
        settings: small_handles,
        prepare: |stage| {
            stage.add_stream(0);
            stage.alloc(1, 3 * GRANULE).unwrap();
            stage.alloc(1, 3 * GRANULE).unwrap();
            stage.free(0);
        },
        act: |stage| stage.retire(1),
        did: |a, b| a.misses == b.misses,
    },
    Scenario {
        name: "a request of another kind, for which a heap is made",
        shape: FOUR,
        settings: Settings::default,
        prepare: nothing,
        act: |stage| {
            let request = Request::new(40 << 10, stage.streams[0].id).open_to(&[DeviceId(2), DeviceId(3)]);
            stage.request(0, &request)
        },
        did: |a, b| created(a, b) == 1,
    },
];

/// Free memory, some of it under stale mappings, of which the GPU is past.
fn free_and_stale(stage: &mut Stage) {
    let first = stage.blocks.len();
    (0..3).for_each(|_| stage.alloc(0, 4 * GRANULE).unwrap());
    stage.free(first + 2);
    stage.free(first);
    stage.alloc(0, 7 * GRANULE).unwrap();
    assert!(stage.rig.pool.stats().stale_mappings > 0);
    stage.free(first);
    stage.pass();
}
