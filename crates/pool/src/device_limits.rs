//! What does not change about the devices of a pool: which they are, their granule, and what may be held of them
//! at first.

use crate::error::{Error, Result};
use crate::settings::Settings;
use crate::unit::UNIT_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;
use stitchpool_chunks::Origin;
use stitchpool_driver::{DeviceId, DeviceInfo};

/// What does not change about a device of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceLimits {
    pub(crate) granule_bytes: u64,
    pub(crate) limit_bytes: u64,
}

impl DeviceLimits {
    /// The devices that the settings name, or all that the driver lists.
    pub(crate) fn find(origin: &Arc<Origin>, settings: &Settings) -> Result<BTreeMap<DeviceId, Self>> {
        let driver = origin.driver();
        let listed = driver.devices()?;
        let known = || listed.iter().map(|info| info.id.to_string()).collect::<Vec<_>>().join(", ");
        let wanted: Vec<DeviceId> = match settings.devices.as_slice() {
            [] => listed.iter().map(|info| info.id).collect(),
            named => named.to_vec(),
        };
        if wanted.is_empty() {
            return Err(Error::Setting("the driver lists no device: a pool needs at least one".into()));
        }
        // A run may mix devices, and each handle must lie at a multiple of its own device's granularity: so
        // the coarsest is the granule of all.
        let mut granule_bytes = UNIT_BYTES;
        for &id in &wanted {
            if !id.is_host() && listed.iter().all(|info| info.id != id) {
                return Err(Error::UnknownDevice { device: id, known: known() });
            }
            granule_bytes = granule_bytes.max(driver.granularity(id, settings.kind)?);
        }
        let mut devices = BTreeMap::new();
        for id in wanted {
            let total_bytes = total_bytes(origin, &listed, id)?;
            let limit_bytes = settings.limit_bytes.map_or(total_bytes, |limit| limit.min(total_bytes));
            let limit_bytes = limit_bytes - limit_bytes % granule_bytes;
            if limit_bytes == 0 {
                return Err(Error::Setting(format!(
                    "{id} may hold {} bytes, less than one granule of {granule_bytes}: raise the limit",
                    settings.limit_bytes.unwrap_or(total_bytes)
                )));
            }
            devices.insert(id, Self { granule_bytes, limit_bytes });
        }
        Ok(devices)
    }
}

/// Asking a GPU for its free memory would make a context there; its size is known without.
pub(crate) fn total_bytes(origin: &Origin, listed: &[DeviceInfo], device: DeviceId) -> Result<u64> {
    let info = listed.iter().find(|info| info.id == device);
    Ok(info
        .map_or_else(|| origin.driver().memory(device).map(|memory| memory.total_bytes), |info| Ok(info.total_bytes))?)
}
