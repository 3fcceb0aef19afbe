//! What a random run consists of. Numbers that pick something are taken modulo what there is.

use crate::rig::fault::faults;
use crate::rig::size::{Size, sizes};
use proptest::prelude::*;
use stitchpool::Placement;
use stitchpool::chunks::Piece;
use stitchpool::driver::{DeviceId, Fault, Verb};

/// One run: the devices, the settings, and the steps.
#[derive(Clone, Debug)]
pub struct Case {
    pub devices: u16,
    pub granule_bytes: u64,
    /// Whether the first device has granules of a quarter of that.
    pub uneven: bool,
    /// Capacity of each device.
    pub granules: u64,
    /// What the pool may hold of each device.
    pub limit_granules: Option<u64>,
    /// The largest handle.
    pub handle_granules: u64,
    pub stream_waits: bool,
    /// Whether the streams run to their ends before the pool goes.
    pub calm_end: bool,
    pub ops: Vec<Op>,
}

#[derive(Clone, Debug)]
pub enum Op {
    Alloc(Wish),
    /// By its owner, or on another stream.
    Free {
        block: usize,
        on: Option<usize>,
    },
    /// Reads or writes the block on a stream.
    Use {
        block: usize,
        stream: usize,
        writes: bool,
    },
    MakeBuffer {
        wish: Wish,
        step_granules: u64,
    },
    Back {
        buffer: usize,
        from: u64,
        granules: u64,
    },
    GiveBack {
        buffer: usize,
        from: u64,
        granules: u64,
    },
    DropBuffer {
        buffer: usize,
    },
    RecordUse {
        block: usize,
        stream: usize,
    },
    Misuse {
        block: usize,
        stream: usize,
    },
    Advance {
        stream: usize,
        items: u64,
    },
    RunAll,
    Stall {
        stream: usize,
        stalled: bool,
    },
    Trim,
    TrimAndWait,
    Register {
        device: usize,
    },
    Retire {
        stream: usize,
    },
    Elapse {
        us: u64,
    },
    /// Other processes take so many granules of a device.
    Outside {
        device: usize,
        granules: u64,
    },
    /// A call of the driver during the next step fails.
    Fault(Fault),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Wish {
    pub stream: usize,
    pub size: Size,
    pub rule: Rule,
    pub alignment_power: u32,
    /// Bit by bit, who else may use it.
    pub readers: u16,
    /// Whether it has handles of its own.
    pub exclusive: bool,
}

/// Which kind of placement.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Plain,
    Home(usize),
    Spill(usize),
    RoundRobin { first: usize, stripe_granules: u64 },
    Weighted([u32; 4]),
    Shards([u64; 4]),
}

impl Wish {
    pub fn bytes(&self, case: &Case) -> u64 {
        match self.rule {
            Rule::Shards(shards) => shards[..usize::from(case.devices)].iter().sum::<u64>() * case.granule_bytes,
            _ => self.size.bytes(case.granule_bytes),
        }
    }

    pub fn placement(&self, case: &Case) -> Option<Placement> {
        let count = usize::from(case.devices);
        let all = || (0..case.devices).map(DeviceId);
        let from = |first: usize| all().cycle().skip(first % count).take(count).collect();
        Some(match self.rule {
            Rule::Plain => return None,
            Rule::Home(device) => Placement::Home(DeviceId((device % count) as u16)),
            Rule::Spill(first) => Placement::Spill(from(first)),
            Rule::RoundRobin { first, stripe_granules } => {
                Placement::RoundRobin { devices: from(first), stripe_bytes: stripe_granules * case.granule_bytes }
            }
            Rule::Weighted(weights) => Placement::Weighted(all().zip(weights).collect()),
            Rule::Shards(shards) => Placement::Shards(
                all().zip(shards).map(|(device, n)| Piece { device, bytes: n * case.granule_bytes }).collect(),
            ),
        })
    }

    /// Whether the block is whole granules.
    pub const fn is_whole(&self) -> bool {
        self.exclusive || self.is_exact()
    }

    /// Whether the placement cuts every block in the same way.
    pub const fn is_exact(&self) -> bool {
        matches!(self.rule, Rule::Weighted(_) | Rule::Shards(_))
    }
}

pub fn cases_of(refused: bool) -> impl Strategy<Value = Case> {
    // Large granules only on small devices: every byte of a block is written and read.
    let memory = prop_oneof![
        2 => (Just(4_u64 << 10), 24..160_u64),
        4 => (Just(16_u64 << 10), 24..160_u64),
        2 => (Just(64_u64 << 10), 16..64_u64),
        1 => (Just(2_u64 << 20), 8..20_u64),
    ];
    // With handles of one granule a refusal can be proved right.
    let handles = prop_oneof![1 => Just(0_u32), 1 => 1..4_u32];
    let settings = (prop::option::of(8..64_u64), handles, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    let steps = prop::collection::vec(ops(refused), 1..240);
    (1..=4_u16, memory, settings, steps).prop_map(|(devices, (granule_bytes, granules), settings, ops)| {
        let (limit_granules, handle_power, stream_waits, calm_end, uneven) = settings;
        let handle_granules = 1 << handle_power;
        let uneven = uneven && devices > 1 && granule_bytes > 4 << 10;
        Case { devices, granule_bytes, uneven, granules, limit_granules, handle_granules, stream_waits, calm_end, ops }
    })
}

fn ops(refused: bool) -> BoxedStrategy<Op> {
    let fault = faults(VERBS).prop_map(Op::Fault);
    if refused { prop_oneof![8 => calm_ops(), 1 => fault].boxed() } else { calm_ops().boxed() }
}

fn calm_ops() -> impl Strategy<Value = Op> {
    let pick = || 0..64_usize;
    let usage = || (pick(), pick(), any::<bool>());
    let part = || (pick(), 0..24_u64, 0..24_u64);
    prop_oneof![
        12 => wishes().prop_map(Op::Alloc),
        8 => (pick(), prop::option::weighted(0.2, pick())).prop_map(|(block, on)| Op::Free { block, on }),
        2 => (wishes(), 1..5_u64).prop_map(|(wish, step_granules)| Op::MakeBuffer { wish, step_granules }),
        5 => part().prop_map(|(buffer, from, granules)| Op::Back { buffer, from, granules }),
        3 => part().prop_map(|(buffer, from, granules)| Op::GiveBack { buffer, from, granules }),
        1 => pick().prop_map(|buffer| Op::DropBuffer { buffer }),
        6 => usage().prop_map(|(block, stream, writes)| Op::Use { block, stream, writes }),
        1 => (pick(), pick()).prop_map(|(block, stream)| Op::RecordUse { block, stream }),
        1 => (pick(), pick()).prop_map(|(block, stream)| Op::Misuse { block, stream }),
        6 => (pick(), 1..6_u64).prop_map(|(stream, items)| Op::Advance { stream, items }),
        1 => Just(Op::RunAll),
        1 => (pick(), prop::bool::weighted(0.3)).prop_map(|(stream, stalled)| Op::Stall { stream, stalled }),
        1 => Just(Op::Trim),
        1 => Just(Op::TrimAndWait),
        1 => pick().prop_map(|device| Op::Register { device }),
        1 => pick().prop_map(|stream| Op::Retire { stream }),
        2 => (0..50_000_u64).prop_map(|us| Op::Elapse { us }),
        1 => (pick(), 0..12_u64).prop_map(|(device, granules)| Op::Outside { device, granules }),
    ]
}

const VERBS: &[Verb] =
    &[Verb::Create, Verb::Map, Verb::SetRights, Verb::Unmap, Verb::Release, Verb::Record, Verb::Wait];

fn wishes() -> impl Strategy<Value = Wish> {
    let rule = prop_oneof![
        8 => Just(Rule::Plain),
        2 => (0..64_usize).prop_map(Rule::Home),
        2 => (0..64_usize).prop_map(Rule::Spill),
        2 => (0..64_usize, 1..4_u64)
            .prop_map(|(first, stripe_granules)| Rule::RoundRobin { first, stripe_granules }),
        1 => [1..4_u32, 0..4_u32, 0..4_u32, 0..4_u32].prop_map(Rule::Weighted),
        1 => [1..4_u64, 1..4_u64, 1..4_u64, 1..4_u64].prop_map(Rule::Shards),
    ];
    let granules = prop_oneof![3 => Just(0_u64), 6 => 1..8_u64, 1 => 8..60_u64];
    let readers = prop_oneof![4 => Just(0_u16), 1 => 0..16_u16];
    let exclusive = prop::bool::weighted(0.15);
    (0..64_usize, sizes(granules), rule, 0..4_u32, readers, exclusive).prop_map(
        |(stream, size, rule, alignment_power, readers, exclusive)| Wish {
            stream,
            size,
            rule,
            alignment_power,
            readers,
            exclusive,
        },
    )
}
