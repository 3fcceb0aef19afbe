//! Blocks that are held in place while something is made of them: what is not kept is let go again.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::extents::Extent;
use crate::lease::demand_awake;
use crate::mapper::Mapper;
use crate::request::Block;
use stitchpool_driver::Address;

/// Blocks that are held until it goes, unless they are kept.
pub(crate) struct Grip<'a> {
    engine: &'a Engine,
    /// By heap and first address; a block that is held twice is here twice.
    held: Vec<(u32, u64)>,
}

impl<'a> Grip<'a> {
    pub(crate) const fn new(engine: &'a Engine) -> Self {
        Self { engine, held: Vec::new() }
    }

    /// Holds the live block that an address lies in, if it has its memory.
    pub(crate) fn hold(&mut self, mapper: &Mapper, address: Address) -> Result<Extent> {
        let heap = self.engine.heap_of(address)?;
        let mut inside = heap.inside.lock();
        let (Some(extent), Some(tenant)) = (inside.block_at(address.0), inside.tenant.clone()) else {
            drop(inside);
            return Err(self.engine.unknown(address));
        };
        demand_awake(mapper, &tenant, Block { address: Address(extent.start), bytes: extent.bytes() })?;
        inside.hold(extent.start);
        self.held.push((heap.index, extent.start));
        Ok(extent)
    }

    /// Holds the live blocks that `bytes` from `address` on lie in, which are neighbours without a gap.
    pub(crate) fn hold_run(&mut self, mapper: &Mapper, address: Address, bytes: u64) -> Result<()> {
        let first = self.hold(mapper, address)?;
        let out_of_range = |end: u64| Error::OutOfRange { address, bytes, end: Address(end) };
        let asked = address.checked_add(bytes).filter(|_| bytes > 0).ok_or_else(|| out_of_range(first.end()))?;
        let mut end = first.end();
        while end < asked.0 {
            end = match self.hold(mapper, Address(end)) {
                Ok(next) => next.end(),
                Err(Error::UnknownAddress { .. }) => return Err(out_of_range(end)),
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// The blocks stay held; who has the list lets them go.
    pub(crate) fn keep(mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.held)
    }
}

impl Drop for Grip<'_> {
    fn drop(&mut self) {
        for &(heap, start) in &self.held {
            if let Some(heap) = self.engine.registry.heap(heap) {
                heap.inside.lock().let_go(start, &[]);
            }
        }
    }
}
