//! Copies that nobody could wait for, because the driver refused. Until it is known that they are done,
//! nothing is unmapped.

use crate::mapper::Mapper;
use crate::tray::Tray;
use std::collections::BTreeSet;
use std::sync::Arc;
use stitchpool_chunks::{capture_of, synchronize};
use stitchpool_driver::{Capture, DeviceId, Error, ErrorKind, Verb};

/// Where copies of an operation that has failed may still be under way.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// Devices whose streams may have such copies queued.
    devices: BTreeSet<DeviceId>,
    /// Trays that they may be writing.
    trays: Vec<Arc<Tray>>,
}

impl Doubt {
    /// Takes note of copies by these devices to these trays.
    pub(crate) fn take(&mut self, devices: &[DeviceId], trays: Vec<Arc<Tray>>) {
        self.devices.extend(devices);
        self.trays.extend(trays);
    }
}

impl Mapper {
    /// Waits until no such copy is under way. Costs nothing where there is no doubt.
    ///
    /// # Errors
    /// The driver's; `Capture`, without a call, while a registered stream is being captured. The doubt stays.
    pub(crate) fn end_doubt(&mut self) -> Result<(), Error> {
        if self.doubt.devices.is_empty() {
            return Ok(());
        }
        let capturing = |raw| capture_of(&self.origin, raw).is_ok_and(|capture| capture != Capture::None);
        if let Some(clock) = self.clocks.values().find(|clock| capturing(clock.raw())) {
            let detail = format!("stream {} is being captured, and copies must be waited for first", clock.serial());
            return Err(Error::new(Verb::Synchronize, ErrorKind::Capture, detail));
        }
        self.doubt.devices.iter().try_for_each(|&device| synchronize(&self.origin, device))?;
        self.doubt.devices.clear();
        let trays = std::mem::take(&mut self.doubt.trays);
        self.put_trays(trays);
        Ok(())
    }
}
