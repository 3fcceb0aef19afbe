//! Copies that nobody could wait for, because the driver refused. Until it is known that they are done,
//! nothing is unmapped.

use crate::mapper::tray::Tray;
use std::collections::BTreeSet;
use std::sync::Arc;
use stitchpool_driver::DeviceId;

/// Where copies of an operation that has failed may still be under way.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// Devices whose streams may have such copies queued.
    pub(crate) devices: BTreeSet<DeviceId>,
    /// Trays that they may be writing.
    pub(crate) trays: Vec<Arc<Tray>>,
}

impl Doubt {
    /// Takes note of copies by these devices to these trays.
    pub(crate) fn take(&mut self, devices: &[DeviceId], trays: Vec<Arc<Tray>>) {
        self.devices.extend(devices);
        self.trays.extend(trays);
    }
}
