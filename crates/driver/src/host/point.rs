//! A point in a stream's work: so many items of a lane.

/// A stream's identity, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneId(pub(super) u64);

/// The end of one item of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) lane: LaneId,
    pub(super) number: u64,
}
