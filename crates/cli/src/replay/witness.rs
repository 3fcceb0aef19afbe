//! Whoever looks on while a trace is played. It plays nothing and calls no driver.

use super::books::Books;
use super::rig::Rig;

/// Looks on while a trace is played.
pub trait Witness {
    /// Something is about to be, or was just done.
    fn see(&mut self, sight: Sight, rig: &Rig, books: &Books);
}

/// What there is to see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sight {
    /// The run comes to this time: what stands now stood until then.
    Time {
        /// Microseconds since the run began.
        time_us: u64,
    },
    /// A request was served, or refused.
    Alloc {
        /// The script's number of the device.
        device: usize,
        /// What was asked for.
        bytes: u64,
        /// Price of its driver calls, in microseconds.
        cost_us: f64,
    },
    /// A block was freed.
    Free {
        /// The script's number of the device.
        device: usize,
        /// Price of the driver calls on that occasion, in microseconds.
        cost_us: f64,
    },
    /// The trace was played to its end; blocks that it leaves still stand.
    End,
}

/// Nobody.
impl Witness for () {
    fn see(&mut self, _: Sight, _: &Rig, _: &Books) {}
}
