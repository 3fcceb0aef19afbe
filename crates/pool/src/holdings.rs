//! What holds a device's memory, in figures. It counts nothing itself.

use std::fmt;
use stitchpool_driver::DeviceId;

/// What holds a device's memory, as one pool sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Which device.
    pub device: DeviceId,
    /// The pool may hold so much.
    pub limit_bytes: u64,
    /// It holds so much.
    pub physical_bytes: u64,
    /// In live blocks.
    pub live_bytes: u64,
    /// Of these, in blocks that may be put out but for leases or views that hold them.
    pub leased_bytes: u64,
    /// Of the live ones, in blocks whose streams are of other devices: they are used from afar.
    pub remote_bytes: u64,
    /// Free in the pool, in wholly free handles and idle ones.
    pub free_bytes: u64,
    /// Freed, but other streams may still be using it.
    pub pending_bytes: u64,
    /// Freed, but leases or views still hold them.
    pub kept_bytes: u64,
    /// Free, but stranded in partly used handles.
    pub stranded_bytes: u64,
    /// Free, but in a graph's arena or in pinned handles, so that nobody may take them.
    pub pinned_bytes: u64,
    /// In blocks that are suspended: not held now, and needed to resume.
    pub suspended_bytes: u64,
    /// In backups of suspended blocks of other devices, and kept for such.
    pub backup_bytes: u64,
    /// Out of use for good, after the driver refused to take it back.
    pub quarantined_bytes: u64,
    /// Free on the device outside the pool, as the driver says; `None` where it would not say.
    pub device_free_bytes: Option<u64>,
}

impl Holdings {
    /// Whether others hold what the limit would allow.
    pub(crate) fn device_is_short(&self, missing_bytes: u64) -> bool {
        let room_bytes = self.limit_bytes.saturating_sub(self.physical_bytes);
        room_bytes >= missing_bytes && self.device_free_bytes.is_some_and(|free_bytes| free_bytes < missing_bytes)
    }

    pub(crate) fn limit_is_short_of_device(&self, missing_bytes: u64) -> bool {
        let room_bytes = self.limit_bytes - self.physical_bytes.min(self.limit_bytes);
        room_bytes < missing_bytes && self.device_free_bytes.is_some_and(|free_bytes| free_bytes >= missing_bytes)
    }
}

impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, limit_bytes, physical_bytes, live_bytes, free_bytes, pending_bytes, .. } = self;
        write!(
            f,
            "{device}: the pool holds {physical_bytes} of at most {limit_bytes} bytes: live {live_bytes}, \
             free {free_bytes}, pending on streams {pending_bytes}, held by leases and views {}, \
             stranded in partly used handles {}, pinned {}, in backups {}, quarantined {}; suspended {}",
            self.kept_bytes,
            self.stranded_bytes,
            self.pinned_bytes,
            self.backup_bytes,
            self.quarantined_bytes,
            self.suspended_bytes
        )?;
        match self.device_free_bytes {
            Some(bytes) => write!(f, "; free on the device outside the pool {bytes}"),
            None => Ok(()),
        }
    }
}
