//! Where the mapper stows backups: it takes trays, takes them back, and waits for copies that nobody could
//! wait for when they were queued.

use crate::engine::Engine;
use crate::error::Result;
use crate::mapper::Mapper;
use crate::mapper::tray::{TRAY_BYTES, Tray};
use std::sync::Arc;
use stitchpool_chunks::{Piece, RangeSpec, StitchedRange, synchronize};
use stitchpool_driver::{DeviceId, Error, ErrorKind, Grant, HandleKind, Rights, Verb};

impl Engine {
    /// A tray on `device` for up to `bytes`, open to `users`: an idle one, else a new one. Where memory is short there,
    /// what nobody uses of the device is given back first.
    pub(crate) fn take_tray(
        &self,
        mapper: &mut Mapper,
        device: DeviceId,
        bytes: u64,
        users: &[DeviceId],
    ) -> Result<Tray> {
        let granule_bytes = mapper.granule_bytes().max(self.origin.driver().granularity(device, HandleKind::Private)?);
        let bytes = bytes.min(TRAY_BYTES).next_multiple_of(granule_bytes);
        if let Some(tray) = mapper.take_idle_tray(device, bytes, users) {
            return Ok(tray);
        }
        let spec = RangeSpec { bytes, granule_bytes, handle_bytes: bytes, kind: HandleKind::Private };
        let range = self.trim_for(mapper, device, |mapper| mapper.make_tray(device, spec, users))?;
        mapper.enter_tray(device, bytes);
        Ok(Tray { range, device, users: users.to_vec() })
    }
}

impl Mapper {
    fn take_idle_tray(&mut self, device: DeviceId, bytes: u64, users: &[DeviceId]) -> Option<Tray> {
        let fits = |tray: &Tray| {
            tray.device == device && tray.bytes() >= bytes && users.iter().all(|user| tray.users.contains(user))
        };
        // The smallest that fits, so that a large one is left for a large backup.
        let fitting = self.trays.idle.iter().enumerate().filter(|(_, tray)| fits(tray));
        let (index, _) = fitting.min_by_key(|(_, tray)| tray.bytes())?;
        Some(self.trays.idle.swap_remove(index))
    }

    fn make_tray(&self, device: DeviceId, spec: RangeSpec, users: &[DeviceId]) -> Result<StitchedRange> {
        self.refuse_beyond_limit(device, spec.bytes)?;
        let mut range = StitchedRange::reserve(&self.origin, spec)?;
        let grants: Vec<Grant> = users.iter().map(|&device| Grant { device, rights: Rights::ReadWrite }).collect();
        range.grow(&[Piece { device, bytes: spec.bytes }], &grants)?;
        Ok(range)
    }

    fn enter_tray(&mut self, device: DeviceId, bytes: u64) {
        *self.trays.bytes.entry(device).or_default() += bytes;
        if let Some(budget) = self.budgets.get_mut(&device) {
            budget.created(bytes);
        }
    }

    /// Takes back a tray that nobody reads any more: kept, as far as the settings say, or given to the driver.
    pub(crate) fn put_tray(&mut self, tray: Tray) {
        let idle_bytes: u64 = self.trays.idle.iter().map(Tray::bytes).sum();
        if idle_bytes + tray.bytes() <= self.settings.backup_keep_bytes {
            self.trays.idle.push(tray);
        } else {
            self.drop_tray(tray);
        }
    }

    /// Takes back those of these trays that no backup holds any more.
    pub(crate) fn put_trays(&mut self, trays: Vec<Arc<Tray>>) {
        for tray in trays {
            if let Some(tray) = Arc::into_inner(tray) {
                self.put_tray(tray);
            }
        }
    }

    /// Gives the driver the idle trays of a device, or of all; says how many bytes.
    pub(crate) fn drop_idle_trays(&mut self, device: Option<DeviceId>) -> u64 {
        let unwanted = |tray: &mut Tray| device.is_none_or(|device| tray.device == device);
        let gone: Vec<Tray> = self.trays.idle.extract_if(.., unwanted).collect();
        let bytes = gone.iter().map(Tray::bytes).sum();
        gone.into_iter().for_each(|tray| self.drop_tray(tray));
        bytes
    }

    fn drop_tray(&mut self, tray: Tray) {
        let (device, bytes) = (tray.device, tray.bytes());
        drop(tray);
        if let Some(all) = self.trays.bytes.get_mut(&device) {
            *all = all.saturating_sub(bytes);
        }
        if let Some(budget) = self.budgets.get_mut(&device) {
            budget.released(bytes);
        }
    }

    /// Bytes of all devices of the pool that no backup takes.
    pub(crate) fn held_without_trays(&self) -> u64 {
        self.budgets.keys().map(|&device| self.held_bytes(device).saturating_sub(self.tray_bytes(device))).sum()
    }

    /// Bytes of a device that backups take, idle trays included.
    pub(crate) fn tray_bytes(&self, device: DeviceId) -> u64 {
        self.trays.bytes.get(&device).copied().unwrap_or(0)
    }

    /// Waits until no such copy is under way. Costs nothing where there is no doubt.
    ///
    /// # Errors
    /// The driver's; `Capture`, without a call, while a registered stream is being captured. The doubt stays.
    pub(crate) fn end_doubt(&mut self) -> std::result::Result<(), Error> {
        if self.doubt.devices.is_empty() {
            return Ok(());
        }
        if let Some(clock) = self.captured() {
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
