//! How likely which step of a life is.

use crate::case::{Aim, Case, End, Op, Store, Where};
use crate::rig::fault::faults;
use crate::rig::size::sizes;
use crate::world::{ARENAS, GRAPH, GRAPHS};
use proptest::prelude::*;
use stitchpool::driver::{ErrorKind, Fault, Rights, Verb};

pub fn cases_of(refused: bool) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![2 => Just((4_u64 << 10, 96_u64)), 1 => Just((64_u64 << 10, 40_u64))];
    let handles = prop_oneof![3 => Just(1_u64), 1 => Just(4_u64)];
    let single = ops(refused).prop_map(|op| vec![op]);
    let calm = prop_oneof![replays(), regrown()];
    let rare = if refused { prop_oneof![2 => calm, 1 => half_woken()].boxed() } else { calm.boxed() };
    let steps = prop_oneof![20 => single, 1 => rare];
    let steps = prop::collection::vec(steps, 1..140).prop_map(|steps| steps.concat());
    let settings = (
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.6),
        prop::bool::weighted(0.25),
        any::<bool>(),
        prop::bool::weighted(0.3),
    );
    (shape, handles, settings, steps).prop_map(
        |((granule_bytes, granules), handle_granules, (lags, tight, host, open, keeps, asks), ops)| Case {
            granule_bytes,
            granules,
            handle_granules,
            lags,
            tight,
            host,
            open,
            keeps,
            asks,
            ops,
        },
    )
}

fn ops(refused: bool) -> BoxedStrategy<Op> {
    let calm = prop_oneof![4 => blocks(), 3 => holders(), 3 => moves(), 2 => graphs(), 2 => surroundings()];
    let fault = faults(VERBS).prop_map(|fault| Op::Faults(vec![fault]));
    if refused { prop_oneof![8 => calm, 1 => fault].boxed() } else { calm.boxed() }
}

fn pick() -> std::ops::Range<usize> {
    0..64
}

fn part() -> impl Strategy<Value = (usize, u64, u64)> {
    (pick(), 0..8_u64, 1..6_u64)
}

fn rights() -> impl Strategy<Value = Rights> {
    prop::sample::select(vec![Rights::None, Rights::Read, Rights::ReadWrite, Rights::ReadWrite])
}

fn place() -> impl Strategy<Value = Where> {
    prop_oneof![
        6 => Just(Where::Home),
        1 => Just(Where::Away),
        1 => Just(Where::Host),
        1 => Just(Where::Dealt),
        1 => Just(Where::Mixed),
        1 => Just(Where::Weighted),
        3 => Just(Where::Spilled),
    ]
}

fn arena() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0_usize), 1 => Just(1_usize), 1 => Just(2_usize)]
}

fn allocs(recorded: f64) -> impl Strategy<Value = Op> {
    (pick(), prop::bool::weighted(recorded), sizes(0..8_u64), any::<bool>(), arena(), place()).prop_map(
        |(lane, recorded, size, exclusive, arena, place)| Op::Alloc { lane, recorded, size, exclusive, arena, place },
    )
}

fn blocks() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => allocs(0.3),
        1 => (pick(), arena(), place()).prop_map(|(lane, arena, place)| Op::MakeBuffer { lane, arena, place }),
        3 => (pick(), 0..12_u64, 1..6_u64).prop_map(|(buffer, from, granules)| Op::Back { buffer, from, granules }),
        2 => (pick(), 0..12_u64, 1..6_u64).prop_map(|(buffer, from, granules)| Op::GiveBack { buffer, from, granules }),
        5 => (pick(), prop::option::weighted(0.2, pick())).prop_map(|(block, on)| Op::Free { block, on }),
        6 => (pick(), pick(), any::<bool>()).prop_map(|(block, lane, writes)| Op::Use { block, lane, writes }),
    ]
}

fn holders() -> impl Strategy<Value = Op> {
    let parts = prop::collection::vec(part(), 1..4);
    prop_oneof![
        2 => pick().prop_map(Op::Lease),
        3 => pick().prop_map(Op::Touch),
        3 => (pick(), prop::option::of(pick())).prop_map(|(lease, lane)| Op::EndLease { lease, lane }),
        2 => (parts, [rights(), rights()]).prop_map(|(parts, rights)| Op::View { parts, rights }),
        3 => (pick(), pick(), any::<bool>()).prop_map(|(view, lane, writes)| Op::UseView { view, lane, writes }),
        4 => pick().prop_map(Op::EndView),
        1 => pick().prop_map(Op::Pin),
        2 => pick().prop_map(Op::Unpin),
        1 => prop::bool::weighted(0.3).prop_map(Op::Veto),
        2 => (pick(), pick()).prop_map(|(block, lane)| Op::Trespass { block, lane }),
    ]
}

fn aim() -> impl Strategy<Value = Aim> {
    prop_oneof![
        1 => Just(Aim::All),
        2 => (0..ARENAS + 2).prop_map(Aim::Arena),
        3 => pick().prop_map(Aim::Block),
        3 => part().prop_map(|(block, from, length)| Aim::Part(block, from, length)),
        2 => (pick(), 0..12_u64, 1..17_u64).prop_map(|(buffer, from, length)| Aim::Stretch(buffer, from, length)),
    ]
}

fn store() -> impl Strategy<Value = Store> {
    prop_oneof![
        4 => Just(Store::Host), 1 => Just(Store::Discard), 2 => (0..3_usize).prop_map(Store::Peer), 1 => Just(Store::Disk)
    ]
}

fn moves() -> impl Strategy<Value = Op> {
    let ends = || (pick(), 0..8_u64, prop::bool::weighted(0.4));
    let end = |(pick, from, stretch), length| match stretch {
        true => Aim::Stretch(pick, from, length),
        false => Aim::Part(pick, from, length),
    };
    let parts = (ends(), ends(), 1..4_u64).prop_map(move |(one, other, length)| [one, other].map(|of| end(of, length)));
    prop_oneof![
        6 => (aim(), store()).prop_map(|(of, to)| Op::Suspend { of, to }),
        2 => parts.prop_map(Op::ExchangeParts),
        8 => aim().prop_map(Op::Resume),
        3 => (aim(), 0..3_usize).prop_map(|(of, place)| Op::Migrate { of, place }),
        2 => (pick(), pick()).prop_map(|(one, other)| Op::Exchange(one, other)),
        4 => (aim(), 0..2_u16, rights()).prop_map(|(of, device, rights)| Op::SetRights { of, device, rights }),
    ]
}

fn names() -> impl Strategy<Value = Op> {
    (pick(), pick()).prop_map(|(lane, block)| Op::Name { lane, block })
}

/// A graph whose memory sleeps between two of its replays.
fn replays() -> impl Strategy<Value = Vec<Op>> {
    let named = prop::collection::vec(prop_oneof![2 => allocs(1.0), 1 => names()], 1..5);
    (pick(), 0..GRAPHS, named, pick(), prop::bool::weighted(0.7), store()).prop_map(
        |(lane, arena, named, graph, whole, to)| {
            let of = if whole { Aim::Arena(GRAPH + arena) } else { Aim::All };
            let begin = Op::Begin { lane, arena, driver_first: false };
            let launch = || Op::Launch { graph, lane };
            let ends = std::iter::repeat_n(Op::End { lane, how: End::Graph }, 2);
            let sleep = [launch(), Op::Suspend { of, to }, launch(), Op::Resume(of), launch()];
            std::iter::once(begin).chain(named).chain(ends).chain(sleep).collect()
        },
    )
}

/// A buffer of which a part is given back that stands elsewhere than it shall, and backed again.
fn regrown() -> impl Strategy<Value = Vec<Op>> {
    (pick(), pick(), place(), 0..4_u64, moves()).prop_map(|(buffer, lane, place, granule, then)| {
        let back = |from, granules| Op::Back { buffer, from, granules };
        let aims = [granule, granule + 1].map(|from| Aim::Stretch(buffer, from, 1));
        let give_back = Op::GiveBack { buffer, from: granule, granules: 2 };
        let make = Op::MakeBuffer { lane, arena: 0, place };
        vec![make, back(0, 6), Op::ExchangeParts(aims), give_back, then, back(0, 8)]
    })
}

/// A resume that is refused, and so is its way back: memory stands without its rights and its content.
fn half_woken() -> impl Strategy<Value = Vec<Op>> {
    (aim(), store(), 1..5_u64, blocks()).prop_map(|(of, to, nth, then)| {
        let refused = |verb, nth, lasting| Fault { verb: Some(verb), nth, lasting, kind: ErrorKind::Unknown };
        let faults = vec![refused(Verb::SetRights, nth, false), refused(Verb::Unmap, 1, true)];
        vec![Op::Suspend { of, to }, Op::Faults(faults), Op::Resume(of), then]
    })
}

fn graphs() -> impl Strategy<Value = Op> {
    let how = prop_oneof![5 => Just(End::Graph), 1 => Just(End::Abort), 1 => Just(End::Break), 1 => Just(End::Silent)];
    let begin = (pick(), 0..GRAPHS, any::<bool>());
    prop_oneof![
        4 => begin.prop_map(|(lane, arena, driver_first)| Op::Begin { lane, arena, driver_first }),
        2 => pick().prop_map(Op::BeginUntold),
        2 => names(),
        12 => (pick(), how).prop_map(|(lane, how)| Op::End { lane, how }),
        4 => (pick(), pick()).prop_map(|(graph, lane)| Op::Launch { graph, lane }),
        1 => (0..GRAPHS + 2).prop_map(Op::Release),
    ]
}

fn surroundings() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (pick(), 1..6_u64).prop_map(|(lane, items)| Op::Advance { lane, items }),
        1 => Just(Op::RunAll),
        2 => any::<bool>().prop_map(|waits| Op::Trim { waits }),
        2 => (0..2_u16).prop_map(|device| Op::Register { device }),
        1 => pick().prop_map(Op::Retire),
        2 => (0..20_000_u64).prop_map(Op::Elapse),
        1 => (0..3_usize, 0..30_u64).prop_map(|(place, granules)| Op::Outside { place, granules }),
        2 => (0..3_usize, prop::option::weighted(0.8, store())).prop_map(|(arena, refuge)| Op::Evictable { arena, refuge }),
        3 => (0..3_usize, 0..24_u64).prop_map(|(place, granules)| Op::Limit { place, granules }),
        1 => (0..3_usize, 0..9_u64).prop_map(|(place, granules)| Op::Headroom { place, granules }),
        1 => (0..3_usize).prop_map(Op::Dissolve),
    ]
}

const VERBS: &[Verb] =
    &[Verb::Create, Verb::Map, Verb::SetRights, Verb::Unmap, Verb::Copy, Verb::Read, Verb::Write, Verb::Synchronize];
