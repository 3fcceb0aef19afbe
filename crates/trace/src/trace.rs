//! A recorded trace: what was recorded, device by device. It reads no file.

use crate::{Event, EventKind, Segment};
use std::collections::BTreeMap;

/// A recorded trace of one process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// What recorded it.
    pub source: Source,
    /// The devices that have events or segments, by ordinal.
    pub devices: Vec<DeviceTrace>,
}

/// What recorded a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// The format.
    pub kind: SourceKind,
    /// The allocator's backend, where the record names it: `native` or `cudaMallocAsync`.
    pub backend: Option<String>,
    /// Whether the allocator used expandable segments, where the record says so.
    pub expandable_segments: Option<bool>,
    /// Events whose action is not known here, counted by name.
    pub other_actions: BTreeMap<String, u64>,
}

/// The formats that are read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SourceKind {
    /// A memory snapshot of `PyTorch`.
    #[default]
    PyTorch,
    /// A log of RMM's logging resource.
    Rmm,
}

/// What was recorded of one device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceTrace {
    /// The device's ordinal.
    pub device: u32,
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// What the allocator held at the end; empty where the format does not say.
    pub segments: Vec<Segment>,
}

impl Trace {
    /// What was recorded of the device with this ordinal.
    #[must_use]
    pub fn device(&self, device: u32) -> Option<&DeviceTrace> {
        self.devices.iter().find(|trace| trace.device == device)
    }
}

impl DeviceTrace {
    /// How many events of one kind there are.
    #[must_use]
    pub fn count(&self, kind: EventKind) -> u64 {
        self.events.iter().filter(|event| event.kind == kind).count() as u64
    }
}

/// Makes times relative to the first event of all devices.
pub(crate) fn start_at_zero(devices: &mut [DeviceTrace]) {
    let first_us = devices.iter().flat_map(|device| &device.events).map(|event| event.time_us).min().unwrap_or(0);
    for event in devices.iter_mut().flat_map(|device| &mut device.events) {
        event.time_us -= first_us;
    }
}
