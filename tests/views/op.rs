//! What a random run does, step by step.

use crate::bench::{LONER, grant};
use proptest::prelude::*;
use stitchpool::driver::{Grant, Rights, Verb};

/// Streams of the first two devices.
pub const LANES: usize = 4;

#[derive(Clone, Debug)]
pub enum Op {
    Alloc { lane: usize, granules: u64, exclusive: bool, arena: bool },
    Free(usize),
    Lease(usize),
    EndLease { lease: usize, lane: Option<usize> },
    View { parts: Vec<(usize, u64, u64)>, grants: Vec<Grant> },
    UseView { view: usize, lane: usize, writes: bool },
    EndView(usize),
    Use { block: usize, lane: usize, writes: bool },
    SetRights { of: Aim, grants: Vec<Grant> },
    Advance { lane: usize, items: u64 },
    Trim,
    TrimAndWait,
    Elapse(u64),
    Fault { verb: Option<Verb>, nth: u64 },
}

/// Where rights are set.
#[derive(Clone, Debug)]
pub enum Aim {
    Arena(bool),
    Block(usize),
    Part(usize, u64, u64),
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let rights = prop::sample::select(vec![Rights::None, Rights::Read, Rights::ReadWrite, Rights::ReadWrite]);
    let device = prop_oneof![20 => 0..3_u16, 1 => Just(LONER.0)];
    prop::collection::vec((device, rights).prop_map(|(device, rights)| grant(device, rights)), 1..4)
}

/// Any of them; with `faults` also calls that fail.
pub fn ops(faults: bool) -> BoxedStrategy<Op> {
    let verbs = prop::sample::select(vec![Verb::Create, Verb::Map, Verb::SetRights, Verb::Unmap, Verb::Synchronize]);
    let fault = (prop::option::of(verbs), 1..6_u64).prop_map(|(verb, nth)| Op::Fault { verb, nth });
    if faults { prop_oneof![24 => calm_ops(), 1 => fault].boxed() } else { calm_ops().boxed() }
}

fn calm_ops() -> impl Strategy<Value = Op> {
    let pick = || 0..64_usize;
    let lane = || 0..LANES;
    let part = || (0..64_usize, 0..8_u64, 1..6_u64);
    let scope = prop_oneof![
        2 => any::<bool>().prop_map(Aim::Arena),
        3 => pick().prop_map(Aim::Block),
        3 => part().prop_map(|(block, from, length)| Aim::Part(block, from, length)),
    ];
    prop_oneof![
        8 => (lane(), 1..7_u64, prop::bool::weighted(0.6), any::<bool>())
            .prop_map(|(lane, granules, exclusive, arena)| Op::Alloc { lane, granules, exclusive, arena }),
        6 => pick().prop_map(Op::Free),
        4 => pick().prop_map(Op::Lease),
        3 => (pick(), prop::option::of(lane())).prop_map(|(lease, lane)| Op::EndLease { lease, lane }),
        4 => (prop::collection::vec(part(), 1..4), grants()).prop_map(|(parts, grants)| Op::View { parts, grants }),
        5 => (pick(), lane(), any::<bool>()).prop_map(|(view, lane, writes)| Op::UseView { view, lane, writes }),
        3 => pick().prop_map(Op::EndView),
        4 => (pick(), lane(), any::<bool>()).prop_map(|(block, lane, writes)| Op::Use { block, lane, writes }),
        5 => (scope, grants()).prop_map(|(of, grants)| Op::SetRights { of, grants }),
        4 => (lane(), 1..6_u64).prop_map(|(lane, items)| Op::Advance { lane, items }),
        1 => Just(Op::Trim),
        1 => Just(Op::TrimAndWait),
        1 => (0..20_000_u64).prop_map(Op::Elapse),
    ]
}
