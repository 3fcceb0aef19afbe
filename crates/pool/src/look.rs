//! What a pool shows of itself: where blocks lie, what stands where, its figures. It changes nothing.

use crate::check;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::mapper::chain::Chain;
use crate::mapper::slot::Slot;
use crate::pool::Pool;
use crate::request::Block;
use crate::stats::Stats;
use crate::survey::Survey;
use stitchpool_chunks::{Segment, picture};
use stitchpool_driver::Address;

impl Pool {
    /// The live block that holds `address`.
    #[must_use]
    pub fn block_holding(&self, address: Address) -> Option<Block> {
        let extent = self.engine.block_holding(address)?;
        Some(Block { address: Address(extent.start), bytes: extent.bytes() })
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

    /// Figures of now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
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
