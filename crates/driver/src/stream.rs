//! Streams and events as the driver names them.

use crate::DeviceId;

/// A stream by the driver's handle value, with the device whose context it belongs to.
///
/// The value alone is no identity: the driver gives a destroyed stream's value to a new one, and 0
/// and 2 (the default streams) mean another stream in each context and thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RawStream {
    /// The device whose primary context the stream belongs to.
    pub device: DeviceId,
    /// The driver's handle value; 0 is the legacy default stream.
    pub value: u64,
}

/// A recorded event by the driver's value, with its device. It names one point of one stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RawEvent {
    /// The device of the stream it was recorded on.
    pub device: DeviceId,
    /// The driver's value.
    pub value: u64,
}

/// Whether a stream's work is being captured into a graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Capture {
    /// It runs.
    #[default]
    None,
    /// It is being recorded.
    Active,
    /// It was being recorded, and something broke the recording.
    Invalidated,
}
