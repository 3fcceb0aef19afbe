//! What a random life consists of. Numbers that pick something are taken modulo what there is.

use crate::rig::size::Size;
use stitchpool::driver::{Fault, Rights};

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
    /// Whether trays are kept for the next backup.
    pub keeps: bool,
    /// Whether all is open to every device that has, or had, a stream. Then the second device has none at first.
    pub open: bool,
    /// Whether the driver is asked, with each request, whether its stream is being captured.
    pub asks: bool,
    /// Whether host memory is a place of the pool, as large as a device.
    pub host: bool,
    pub ops: Vec<Op>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Plain,
    Exclusive,
    Buffer,
}

/// Where a block shall lie, as its stream sees it. The host counts where it is a place of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    Home,
    /// On the other device.
    Away,
    /// In the host's memory.
    Host,
    /// Granule by granule at home and on the other device.
    Dealt,
    /// Granule by granule at home, on the other device and in the host's memory.
    Mixed,
    /// Two parts at home, then one on the other device.
    Weighted,
    /// At home, then on the other device, then in the host's memory.
    Spilled,
}

/// How a capture ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With a graph.
    Graph,
    /// The application gives it up, and with it the streams that joined.
    Abort,
    /// Something breaks it, or it ends.
    Break,
    /// In the driver, with a graph and no word to the pool.
    Silent,
}

/// What an operation is about.
#[derive(Clone, Copy, Debug)]
pub enum Aim {
    All,
    Arena(usize),
    Block(usize),
    Part(usize, u64, u64),
    /// Granules of a buffer, backed or not.
    Stretch(usize, u64, u64),
}

#[derive(Clone, Copy, Debug)]
pub enum Store {
    Host,
    Discard,
    Peer(usize),
    Disk,
}

#[derive(Clone, Debug)]
pub enum Op {
    Alloc {
        lane: usize,
        /// On a stream that is being captured, where one is.
        recorded: bool,
        size: Size,
        exclusive: bool,
        arena: usize,
        place: Where,
    },
    MakeBuffer {
        lane: usize,
        arena: usize,
        place: Where,
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
    /// The pool may hold so many granules of a place; 0: all.
    Limit {
        place: usize,
        granules: u64,
    },
    /// So many granules below the limit forced growth ends.
    Headroom {
        place: usize,
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
        place: usize,
    },
    Exchange(usize, usize),
    /// Parts of blocks or buffers, perhaps of one.
    ExchangeParts([Aim; 2]),
    /// A capture into one of the graphs' arenas; the driver or the pool hears of it first.
    Begin {
        lane: usize,
        arena: usize,
        driver_first: bool,
    },
    /// A capture that the pool is not told of, where it asks: its first request finds it out.
    BeginUntold(usize),
    /// Captured work writes a block of before.
    Name {
        lane: usize,
        block: usize,
    },
    End {
        lane: usize,
        how: End,
    },
    /// What a graph has recorded runs on some stream of its device.
    Launch {
        graph: usize,
        lane: usize,
    },
    Release(usize),
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
    /// Others take so many granules of a place.
    Outside {
        place: usize,
        granules: u64,
    },
    /// Calls of the driver during the next step fail.
    Faults(Vec<Fault>),
}
