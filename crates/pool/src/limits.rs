//! What may be changed about a pool's devices while it runs: how much it may hold, and from when on
//! peaks count.

use crate::error::{Error, Result};
use crate::pool::Pool;
use stitchpool_driver::DeviceId;

impl Pool {
    /// From now on the pool holds at most `limit_bytes` of a device, rounded down to granules; `None`: all
    /// the device has. What it holds above that stays until it is trimmed.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`], [`Error::Setting`] below one granule, or the driver's when it cannot tell
    /// of its devices.
    pub fn set_limit(&self, device: DeviceId, limit_bytes: Option<u64>) -> Result<()> {
        let granule_bytes = self.engine.known_device(device)?.granule_bytes;
        let total_bytes = self.engine.total_bytes(device)?;
        let wanted_bytes = limit_bytes.map_or(total_bytes, |limit_bytes| limit_bytes.min(total_bytes));
        if wanted_bytes < granule_bytes {
            return Err(Error::Setting(format!(
                "{device} may hold {wanted_bytes} bytes, less than one granule of {granule_bytes}: raise the limit"
            )));
        }
        if let Some(budget) = self.engine.mapper.lock().budgets.get_mut(&device) {
            budget.limit_bytes = wanted_bytes - wanted_bytes % granule_bytes;
        }
        Ok(())
    }

    /// From now on forced growth on a device ends so many bytes below its limit: closer to it, other streams are
    /// waited for instead. The limit itself stays within reach of what is live.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`].
    pub fn set_headroom(&self, device: DeviceId, headroom_bytes: u64) -> Result<()> {
        self.engine.known_device(device)?;
        if let Some(budget) = self.engine.mapper.lock().budgets.get_mut(&device) {
            budget.headroom_bytes = headroom_bytes;
        }
        Ok(())
    }

    /// From now on the highest physical bytes of a device are counted anew.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`].
    pub fn reset_peaks(&self, device: DeviceId) -> Result<()> {
        self.engine.known_device(device)?;
        if let Some(budget) = self.engine.mapper.lock().budgets.get_mut(&device) {
            budget.reset_peak();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Request, Settings};
    use std::sync::Arc;
    use stitchpool_driver::RawStream;
    use stitchpool_driver::host::{HostConfig, HostDriver};

    const MIB: u64 = 1 << 20;
    const FIRST: DeviceId = DeviceId(0);

    fn pool() -> (Pool, crate::StreamId) {
        let pool = Pool::new(HostDriver::new(HostConfig::default()).unwrap() as Arc<_>, Settings::default()).unwrap();
        let stream = pool.register(RawStream { device: FIRST, value: 0 }).unwrap();
        (pool, stream)
    }

    #[test]
    fn a_limit_holds_from_the_moment_it_is_set() {
        let (pool, stream) = pool();
        pool.set_limit(FIRST, Some(9 * MIB)).unwrap();
        let block = pool.alloc(&Request::new(8 * MIB, stream)).unwrap();
        assert!(matches!(pool.alloc(&Request::new(MIB, stream)), Err(Error::OutOfMemory(_))), "9 MiB are 4 granules");
        pool.set_limit(FIRST, Some(2 * MIB)).unwrap();
        assert_eq!(pool.stats().devices[0].holdings.physical_bytes, 8 * MIB, "what is there stays");
        pool.set_limit(FIRST, None).unwrap();
        pool.alloc(&Request::new(MIB, stream)).unwrap();
        pool.free(block.address).unwrap();
        assert!(matches!(pool.set_limit(FIRST, Some(MIB)), Err(Error::Setting(_))));
        assert!(matches!(pool.set_limit(DeviceId(7), None), Err(Error::UnknownDevice { .. })));
    }

    #[test]
    fn a_reset_peak_begins_with_what_is_held_now() {
        let (pool, stream) = pool();
        let block = pool.alloc(&Request::new(64 * MIB, stream)).unwrap();
        pool.free(block.address).unwrap();
        pool.trim_and_wait().unwrap();
        assert_eq!(pool.stats().devices[0].physical_peak_bytes, 64 * MIB);
        pool.reset_peaks(FIRST).unwrap();
        assert_eq!(pool.stats().devices[0].physical_peak_bytes, 0);
    }
}
