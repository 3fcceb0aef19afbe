//! Things the driver refused to take back. They are out of use for good and counted, never retried.

use parking_lot::Mutex;
use stitchpool_driver::{DeviceId, Error, ErrorKind};

/// How many entries are kept word by word; counts and bytes go on beyond it.
const ENTRIES_MAX: usize = 64;

/// What an entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuarantinedKind {
    /// A physical handle that could not be released.
    Handle,
    /// A mapping that could not be unmapped; its handle and address stay with it.
    Mapping,
    /// A reservation that could not be given back.
    Reservation,
    /// An event that could not be destroyed.
    Event,
}

/// One thing out of use, and why.
#[derive(Clone, Debug)]
pub struct Quarantined {
    /// What it is.
    pub kind: QuarantinedKind,
    /// The device whose memory it holds, where it holds any.
    pub device: Option<DeviceId>,
    /// How many bytes (of memory, or of addresses).
    pub bytes: u64,
    /// The driver's refusal.
    pub error: Error,
}

/// The list of things out of use.
#[derive(Debug, Default)]
pub struct Quarantine {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The first `ENTRIES_MAX` of them.
    first: Vec<Quarantined>,
    /// Physical bytes by device; at most one entry a device.
    physical_bytes: Vec<(DeviceId, u64)>,
    count: u64,
}

impl Quarantine {
    /// Takes note of a refusal on the way down. A driver that is already shut down has taken
    /// everything back, so its refusals are no news.
    pub fn put(&self, entry: Quarantined) {
        if entry.error.kind == ErrorKind::Deinitialized {
            return;
        }
        tracing::warn!(error = %entry.error, kind = ?entry.kind, bytes = entry.bytes, "put into quarantine");
        let mut entries = self.entries.lock();
        entries.count += 1;
        let holds_memory = matches!(entry.kind, QuarantinedKind::Handle | QuarantinedKind::Mapping);
        if let (true, Some(device)) = (holds_memory, entry.device) {
            match entries.physical_bytes.iter_mut().find(|(at, _)| *at == device) {
                Some((_, bytes)) => *bytes += entry.bytes,
                None => entries.physical_bytes.push((device, entry.bytes)),
            }
        }
        if entries.first.len() < ENTRIES_MAX {
            entries.first.push(entry);
        }
    }

    /// How many things are out of use.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.entries.lock().count
    }

    /// Physical bytes of `device` that are out of use.
    #[must_use]
    pub fn physical_bytes(&self, device: DeviceId) -> u64 {
        self.entries.lock().physical_bytes.iter().filter(|(at, _)| *at == device).map(|(_, bytes)| bytes).sum()
    }

    /// The first of them, word by word.
    #[must_use]
    pub fn entries(&self) -> Vec<Quarantined> {
        self.entries.lock().first.clone()
    }
}
