//! Where backups lie while their blocks sleep: memory of the host or of a peer, in pieces of one size,
//! kept for the next time as far as the settings say.

use stitchpool_chunks::StitchedRange;
use stitchpool_driver::{Address, DeviceId};

/// A piece of memory that backups lie in.
#[derive(Debug)]
pub(crate) struct Tray {
    pub(crate) range: StitchedRange,
    pub(crate) device: DeviceId,
    /// Who may copy to it and from it.
    pub(crate) users: Vec<DeviceId>,
}

/// Trays that hold no backup.
#[derive(Debug, Default)]
pub(crate) struct Trays {
    pub(crate) idle: Vec<Tray>,
    /// Bytes of all trays by device, those in use included.
    pub(crate) bytes: std::collections::BTreeMap<DeviceId, u64>,
}

/// The size of a tray, one handle each: a backup that is smaller gets one of its own size. (Making and opening
/// 8 GiB of fresh memory costs 17 ms in handles of 256 MiB, 12 of 512.)
pub(crate) const TRAY_BYTES: u64 = 512 << 20;

impl Tray {
    pub(crate) const fn at(&self) -> Address {
        self.range.at()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.range.bytes()
    }

    pub(crate) const fn device(&self) -> DeviceId {
        self.device
    }
}
