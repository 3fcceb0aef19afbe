//! What a random life consists of. Numbers that pick something are taken modulo what there is.

use proptest::prelude::*;
use stitchpool::driver::{ErrorKind, Rights, Verb};

/// One life: the devices, the settings, and the steps.
#[derive(Clone, Debug)]
pub struct Case {
    pub granule_bytes: u64,
    /// Capacity of each device.
    pub granules: u64,
    /// The largest handle.
    pub handle_granules: u64,
    /// Whether streams run after a while, and not by hand.
    pub lags: bool,
    /// Whether the pool may hold little from the start, and put out what it cannot.
    pub tight: bool,
    pub ops: Vec<Op>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Plain,
    Exclusive,
    Buffer,
}

/// Where a block shall lie, as its stream sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    Home,
    Away,
    Dealt,
}

/// What an operation is about.
#[derive(Clone, Copy, Debug)]
pub enum Aim {
    All,
    Arena(usize),
    Block(usize),
    Part(usize, u64, u64),
}

#[derive(Clone, Copy, Debug)]
pub enum Store {
    Host,
    Discard,
    Peer(u16),
    Disk,
}

#[derive(Clone, Debug)]
pub enum Op {
    Alloc {
        lane: usize,
        granules: u64,
        milligranules: u64,
        exclusive: bool,
        arena: usize,
        /// On the other device, or dealt to both.
        place: Where,
    },
    MakeBuffer {
        lane: usize,
        arena: usize,
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
    Free {
        block: usize,
        on: Option<usize>,
    },
    Use {
        block: usize,
        lane: usize,
        writes: bool,
    },
    Trespass {
        block: usize,
        lane: usize,
    },
    Lease(usize),
    Touch(usize),
    EndLease {
        lease: usize,
        lane: Option<usize>,
    },
    View {
        parts: Vec<(usize, u64, u64)>,
        rights: [Rights; 2],
    },
    UseView {
        view: usize,
        lane: usize,
        writes: bool,
    },
    EndView(usize),
    Pin(usize),
    Unpin(usize),
    Veto(bool),
    /// An arena's blocks may go there while memory is short.
    Evictable {
        arena: usize,
        refuge: Option<Store>,
    },
    /// The pool may hold so many granules of a device; 0: all.
    Limit {
        device: u16,
        granules: u64,
    },
    Dissolve(usize),
    SetRights {
        of: Aim,
        device: u16,
        rights: Rights,
    },
    Suspend {
        of: Aim,
        to: Store,
    },
    Resume(Aim),
    Migrate {
        of: Aim,
        device: u16,
    },
    Exchange(usize, usize),
    /// Parts of blocks or buffers, perhaps of one.
    ExchangeParts((usize, u64), (usize, u64), u64),
    Begin(usize),
    End {
        aborts: bool,
    },
    Launch(usize),
    Release,
    Advance {
        lane: usize,
        items: u64,
    },
    RunAll,
    Trim {
        waits: bool,
    },
    Register {
        device: u16,
    },
    Retire(usize),
    Elapse(u64),
    /// Other processes take so many granules of a device.
    Outside {
        device: u16,
        granules: u64,
    },
    /// A call of the driver during the next step fails.
    Fault {
        verb: Option<Verb>,
        nth: u64,
        kind: ErrorKind,
    },
}

pub fn cases_of(faults: bool) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![2 => Just((4_u64 << 10, 96_u64)), 1 => Just((64_u64 << 10, 40_u64))];
    let handles = prop_oneof![3 => Just(1_u64), 1 => Just(4_u64)];
    let steps = prop::collection::vec(ops(faults), 1..140);
    (shape, handles, prop::bool::weighted(0.3), prop::bool::weighted(0.4), steps).prop_map(
        |((granule_bytes, granules), handle_granules, lags, tight, ops)| Case {
            granule_bytes,
            granules,
            handle_granules,
            lags,
            tight,
            ops,
        },
    )
}

fn ops(faults: bool) -> BoxedStrategy<Op> {
    let calm = prop_oneof![4 => blocks(), 3 => holders(), 3 => moves(), 1 => graphs(), 2 => surroundings()];
    if faults { prop_oneof![8 => calm, 1 => fault()].boxed() } else { calm.boxed() }
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

fn blocks() -> impl Strategy<Value = Op> {
    let arena = || prop_oneof![2 => Just(0_usize), 1 => Just(1_usize), 1 => Just(2_usize)];
    let sizes = (0..8_u64, prop_oneof![1 => Just(0_u64), 1 => 1..1000_u64]);
    let place = prop_oneof![7 => Just(Where::Home), 2 => Just(Where::Away), 1 => Just(Where::Dealt)];
    prop_oneof![
        8 => (pick(), sizes, any::<bool>(), arena(), place).prop_map(
            |(lane, (granules, milligranules), exclusive, arena, place)| Op::Alloc {
                lane, granules, milligranules, exclusive, arena, place
            }
        ),
        1 => (pick(), arena()).prop_map(|(lane, arena)| Op::MakeBuffer { lane, arena }),
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
        2 => (0..4_usize).prop_map(Aim::Arena),
        3 => pick().prop_map(Aim::Block),
        3 => part().prop_map(|(block, from, length)| Aim::Part(block, from, length)),
    ]
}

fn store() -> impl Strategy<Value = Store> {
    prop_oneof![
        4 => Just(Store::Host), 1 => Just(Store::Discard), 2 => (0..2_u16).prop_map(Store::Peer), 1 => Just(Store::Disk)
    ]
}

fn moves() -> impl Strategy<Value = Op> {
    let ends = || (pick(), 0..8_u64);
    prop_oneof![
        6 => (aim(), store()).prop_map(|(of, to)| Op::Suspend { of, to }),
        2 => (ends(), ends(), 1..4_u64).prop_map(|(one, other, length)| Op::ExchangeParts(one, other, length)),
        8 => aim().prop_map(Op::Resume),
        3 => (aim(), 0..2_u16).prop_map(|(of, device)| Op::Migrate { of, device }),
        2 => (pick(), pick()).prop_map(|(one, other)| Op::Exchange(one, other)),
        4 => (aim(), 0..2_u16, rights()).prop_map(|(of, device, rights)| Op::SetRights { of, device, rights }),
    ]
}

fn graphs() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => pick().prop_map(Op::Begin),
        4 => prop::bool::weighted(0.2).prop_map(|aborts| Op::End { aborts }),
        2 => pick().prop_map(Op::Launch),
        1 => Just(Op::Release),
    ]
}

fn surroundings() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (pick(), 1..6_u64).prop_map(|(lane, items)| Op::Advance { lane, items }),
        1 => Just(Op::RunAll),
        2 => any::<bool>().prop_map(|waits| Op::Trim { waits }),
        1 => (0..2_u16).prop_map(|device| Op::Register { device }),
        1 => pick().prop_map(Op::Retire),
        2 => (0..20_000_u64).prop_map(Op::Elapse),
        1 => (0..2_u16, 0..30_u64).prop_map(|(device, granules)| Op::Outside { device, granules }),
        2 => (0..3_usize, prop::option::weighted(0.8, store())).prop_map(|(arena, refuge)| Op::Evictable { arena, refuge }),
        2 => (0..2_u16, 0..24_u64).prop_map(|(device, granules)| Op::Limit { device, granules }),
        1 => (0..3_usize).prop_map(Op::Dissolve),
    ]
}

const KINDS: &[ErrorKind] =
    &[ErrorKind::OutOfMemory, ErrorKind::InvalidValue, ErrorKind::Unknown, ErrorKind::OutOfResources];

fn fault() -> impl Strategy<Value = Op> {
    let verbs = vec![
        Verb::Create,
        Verb::Map,
        Verb::SetRights,
        Verb::Unmap,
        Verb::Copy,
        Verb::Read,
        Verb::Write,
        Verb::Synchronize,
    ];
    let verb = prop::option::of(prop::sample::select(verbs));
    (verb, 1..8_u64, prop::sample::select(KINDS)).prop_map(|(verb, nth, kind)| Op::Fault { verb, nth, kind })
}
