//! A recorded trace: what was recorded, device by device. Opens files; each format has its own file.

use crate::bytes::Bytes;
use crate::progress::Watched;
use crate::{Error, ErrorKind, Event, EventKind, Limits, Progress, Result, Segment, rmm, snapshot, unpack};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

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
    /// Reads the trace in a file. Format and compression are told by content, not by name.
    ///
    /// # Errors
    /// When the file cannot be read, is no trace, is damaged, or passes a limit.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        Self::open_watched(path, limits, &mut |_| ())
    }

    /// [`Trace::open`], telling `hook` after each read how far it is.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn open_watched(path: impl AsRef<Path>, limits: &Limits, hook: &mut dyn FnMut(Progress)) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |why: String| Error::new(ErrorKind::Io, 0, format!("cannot open {}: {why}", path.display()));
        let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
        let metadata = file.metadata().map_err(|error| refuse(error.to_string()))?;
        if metadata.is_dir() {
            return Err(refuse("it is a directory; name a file in it".to_owned()));
        }
        let total_bytes = metadata.is_file().then_some(metadata.len());
        Self::read(Watched::new(file, total_bytes, hook), limits)
    }

    /// Reads the trace in a stream, to the stream's end.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn read(source: impl Read, limits: &Limits) -> Result<Self> {
        let mut bytes = Bytes::new(unpack::unpack(source, limits)?, limits.unpacked_bytes);
        let head = bytes.peek(256)?;
        if head.is_empty() {
            return Err(Error::new(ErrorKind::NotATrace, 0, "the file is empty"));
        }
        if head[0] == snapshot::FIRST_BYTE {
            return snapshot::read(bytes, limits);
        }
        if rmm::looks_like(head) {
            return rmm::read(bytes, limits);
        }
        Err(Error::new(ErrorKind::NotATrace, 0, not_a_trace(head)))
    }

    /// What was recorded of the device with this ordinal.
    #[must_use]
    pub fn device(&self, device: u32) -> Option<&DeviceTrace> {
        self.devices.iter().find(|trace| trace.device == device)
    }

    /// The steps that a replay plays on one device: [`DeviceTrace::steps`], empty for a device that is not in the trace.
    #[must_use]
    pub fn steps(&self, device: u32) -> crate::Steps {
        self.device(device).map(DeviceTrace::steps).unwrap_or_default()
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

/// What a file that is no trace seems to be, and what would be one.
fn not_a_trace(head: &[u8]) -> String {
    let seems = match head {
        [b'P', b'K', 3, 4, ..] => {
            "a zip archive (torch.save writes those; use pickle.dump or _dump_snapshot)".to_owned()
        }
        [b'(' | b']' | b'}', ..] => {
            "perhaps a pickle of protocol 0 or 1 (write it with protocol 2 or later)".to_owned()
        }
        _ => match std::str::from_utf8(&head[..head.len().min(40)]) {
            Ok(text) => format!("text that begins {:?}", text.lines().next().unwrap_or_default()),
            Err(_) => format!("bytes that begin {:02x?}", &head[..head.len().min(8)]),
        },
    };
    format!("no trace, but {seems}; a trace is a PyTorch memory snapshot (a pickle) or an RMM log (CSV with a header)")
}
