//! Where a pool's memory stands: runs of addresses, live and free bytes alike. It only looks.

use crate::heap::Heap;
use crate::pool::Pool;
use stitchpool_driver::{Address, DeviceId, RawStream};

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

impl Pool {
    /// Every run of addresses that has memory of one device behind it, in address order.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range> {
        let mapper = self.engine.mapper.lock();
        let heaps: Vec<&Heap> = self.engine.registry.heaps().collect();
        let stream = |heap: u32| {
            let inside = heaps.get(heap as usize)?.inside.lock();
            inside.tenant.as_ref().map(|tenant| tenant.clock.raw())
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Request, Settings};
    use stitchpool_driver::host::{HostConfig, HostDriver};

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_ranges_are_what_the_pool_holds() {
        let pool = Pool::new(HostDriver::new(HostConfig::default()).unwrap(), Settings::default()).unwrap();
        let raw = RawStream { device: DeviceId(0), value: 0 };
        let stream = pool.register(raw).unwrap();
        let block = pool.alloc(&Request::new(64 * MIB, stream)).unwrap();
        let range = pool.ranges()[0];
        assert_eq!((range.address, range.bytes, range.device), (block.address, 64 * MIB, DeviceId(0)));
        assert_eq!(range.stream, Some(raw));
        let held: u64 = pool.ranges().iter().map(|range| range.bytes).sum();
        assert_eq!(held, pool.stats().devices[0].holdings.physical_bytes);
    }
}
