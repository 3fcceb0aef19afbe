//! What may be changed about a pool's devices while it runs: how much it may hold, and from when on
//! peaks count.

use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::pool::Pool;
use stitchpool_driver::{Address, DeviceId, RawStream};

impl Pool {
    /// From now on the pool holds at most `limit_bytes` of a device, rounded down to granules; `None`: all
    /// the device has. What it holds above that stays until it is trimmed.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`], [`Error::Setting`] below one granule, or the driver's when it cannot tell
    /// of its devices.
    pub fn set_limit(&self, device: DeviceId, limit_bytes: Option<u64>) -> Result<()> {
        let granule_bytes = self.engine().known_device(device)?.granule_bytes;
        let total_bytes = self.engine().total_bytes(device)?;
        let wanted_bytes = limit_bytes.map_or(total_bytes, |limit_bytes| limit_bytes.min(total_bytes));
        if wanted_bytes < granule_bytes {
            return Err(Error::Setting(format!(
                "{device} may hold {wanted_bytes} bytes, less than one granule of {granule_bytes}: raise the limit"
            )));
        }
        if let Some(budget) = self.engine().mapper.lock().budgets.get_mut(&device) {
            budget.limit_bytes = wanted_bytes - wanted_bytes % granule_bytes;
        }
        Ok(())
    }

    /// From now on the highest physical bytes of a device are counted anew.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`].
    pub fn reset_peaks(&self, device: DeviceId) -> Result<()> {
        self.engine().known_device(device)?;
        if let Some(budget) = self.engine().mapper.lock().budgets.get_mut(&device) {
            budget.reset_peak();
        }
        Ok(())
    }

    /// Every run of addresses that has memory of one device behind it, in address order.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range> {
        let mapper = self.engine().mapper.lock();
        let heaps: Vec<&Heap> = self.engine().registry.heaps().collect();
        let stream = |heap: u32| {
            let core = heaps.get(heap as usize)?.core.lock();
            core.tenant.as_ref().map(|tenant| tenant.clock.raw())
        };
        let mut ranges: Vec<Range> = Vec::new();
        let mut last_heap = None;
        for (heap, mapping) in mapper.current_mappings() {
            let (address, bytes, device) = (mapping.at(), mapping.bytes(), mapping.handle().device());
            match ranges.last_mut() {
                Some(last)
                    if last.address + last.bytes == address && last.device == device && last_heap == Some(heap) =>
                {
                    last.bytes += bytes;
                }
                _ => ranges.push(Range { address, bytes, device, stream: stream(heap) }),
            }
            last_heap = Some(heap);
        }
        ranges
    }
}

/// A run of addresses with memory of one device behind it, all of one heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Its first address.
    pub address: Address,
    /// Its length.
    pub bytes: u64,
    /// Where the memory lies.
    pub device: DeviceId,
    /// Whose heap it serves.
    pub stream: Option<RawStream>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Request, Settings};
    use std::sync::Arc;
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

    #[test]
    fn the_ranges_are_what_the_pool_holds() {
        let (pool, stream) = pool();
        let block = pool.alloc(&Request::new(64 * MIB, stream)).unwrap();
        let range = pool.ranges()[0];
        assert_eq!((range.address, range.bytes, range.device), (block.address, 64 * MIB, FIRST));
        assert_eq!(range.stream, Some(RawStream { device: FIRST, value: 0 }));
        let held: u64 = pool.ranges().iter().map(|range| range.bytes).sum();
        assert_eq!(held, pool.stats().devices[0].holdings.physical_bytes);
    }
}
