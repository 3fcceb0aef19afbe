//! What a pool shows of itself and of its devices: where blocks lie, what stands where, figures. It changes nothing.

use crate::arena::ArenaId;
use crate::check;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::mapper::chain::Chain;
use crate::mapper::slot::Slot;
use crate::pool::Pool;
use crate::request::Block;
use crate::stats::{DeviceStats, Stats};
use crate::survey::Survey;
use crate::view::Part;
use stitchpool_chunks::{Segment, picture};
use stitchpool_driver::{Address, DeviceInfo};

impl Pool {
    /// The live block that holds `address`.
    #[must_use]
    pub fn block_holding(&self, address: Address) -> Option<Block> {
        let extent = self.engine.block_holding(address)?;
        Some(Block::of(extent.start, extent.units))
    }

    /// Every live block of an arena, in the order of their addresses.
    ///
    /// # Errors
    /// [`Error::UnknownArena`].
    pub fn blocks_of(&self, arena: ArenaId) -> Result<Vec<Part>> {
        self.engine.mapper.lock().arenas.get(arena)?;
        let blocks = self.engine.heaps_of(arena).flat_map(|heap| heap.inside.lock().blocks().collect::<Vec<_>>());
        let mut parts: Vec<Part> =
            blocks.map(|block| Part { address: Address(block.start), bytes: block.bytes() }).collect();
        parts.sort_unstable_by_key(|part| part.address);
        Ok(parts)
    }

    /// Every piece of memory behind `bytes` from `address` on, which lie in one live block or view.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`], or [`Error::OutOfRange`].
    pub fn segments(&self, address: Address, bytes: u64) -> Result<Vec<Segment>> {
        let mapper = self.engine.mapper.lock();
        let end = self.block_holding(address).map(|block| block.address + block.bytes);
        let end = end.or_else(|| mapper.view_end(address)).ok_or_else(|| self.engine.unknown(address))?;
        if bytes == 0 || address.checked_add(bytes).is_none_or(|asked| asked > end) {
            return Err(Error::OutOfRange { address, bytes, end });
        }
        let mappings = mapper.slots_over(address, address + bytes).filter_map(Slot::in_use);
        Ok(mappings.filter_map(|mapping| Segment::of(mapping, address, bytes)).collect())
    }

    /// What the driver says of the devices.
    ///
    /// # Errors
    /// The driver's.
    pub fn device_infos(&self) -> Result<Vec<DeviceInfo>> {
        Ok(self.engine.origin.driver().devices()?)
    }

    /// Figures of now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let engine = &*self.engine;
        let heaps: Vec<&Heap> = engine.registry.heaps().collect();
        let mapper = engine.mapper.lock();
        let counts = mapper.counts;
        let mut stats = Stats {
            handles_created: counts.created,
            handles_released: counts.released,
            handles_aliased: counts.aliased,
            handles_unmapped: counts.unmapped,
            stale_mappings: mapper.stale.len() as u64,
            stream_waits: counts.stream_waits,
            cpu_waits: counts.cpu_waits,
            forced_bytes: counts.forced_bytes,
            evictions: counts.evictions,
            evicted_bytes: counts.evicted_bytes,
            returned_bytes: counts.returned_bytes,
            quarantined: engine.origin.quarantine().count(),
            metadata_bytes: mapper.own_bytes() + engine.table.own_bytes() + engine.registry.own_bytes(),
            ..Stats::default()
        };
        for heap in &heaps {
            let inside = heap.inside.lock();
            stats.allocs += inside.allocs();
            stats.frees += inside.frees();
            stats.misses += inside.misses;
            stats.live_blocks += inside.block_count() as u64;
            stats.metadata_bytes += inside.own_bytes();
        }
        for (&device, budget) in &mapper.budgets {
            if let Some(holdings) = mapper.holdings(device, &heaps) {
                let (physical_peak_bytes, live_peak_bytes) = (budget.physical_peak_bytes(), budget.live_peak_bytes());
                stats.devices.push(DeviceStats { holdings, physical_peak_bytes, live_peak_bytes });
            }
        }
        stats
    }

    /// Proves the pool's invariants, for tests: no other thread may use the pool meanwhile.
    ///
    /// # Errors
    /// What is broken, in words.
    pub fn check(&self) -> std::result::Result<(), String> {
        let heaps: Vec<&Heap> = self.engine.registry.heaps().collect();
        check::check(&self.engine.mapper.lock(), &heaps)
    }

    /// What stands where now: every slot with its memory and what its bytes are used for, and every idle handle.
    #[must_use]
    pub fn survey(&self) -> Survey {
        let heaps: Vec<&Heap> = self.engine.registry.heaps().collect();
        Survey::of(&self.engine.mapper.lock(), &heaps)
    }

    /// The address ranges that have memory, one line each: its first address, and one letter a
    /// granule (see [`picture`](stitchpool_chunks::picture())), `.` where a handle was taken away.
    #[must_use]
    pub fn pictures(&self) -> Vec<String> {
        let mapper = self.engine.mapper.lock();
        let granule_bytes = self.engine.granule_bytes();
        let draw = |chain: &Chain| {
            let start = chain.at();
            let mappings = chain.slots().iter().filter_map(Slot::in_use);
            let placed = mappings.map(|mapping| (mapping.at().bytes_from(start), mapping));
            let line = picture(placed, chain.top().bytes_from(start), granule_bytes);
            format!("{start} {line}")
        };
        mapper.chains.values().map(draw).collect()
    }
}
