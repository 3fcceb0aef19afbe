//! Slots that a failed operation left mapped without their content: the next resume fills them. It maps
//! nothing.

use crate::engine::Engine;
use crate::error::Result;
use crate::mapper::Mapper;
use crate::mapper::backup::Content;
use crate::mapper::slot::Slot;
use crate::operation::courier::Courier;
use crate::operation::read_ahead::ReadAhead;
use crate::operation::sleeper::Sleeper;
use crate::scope::Ground;
use stitchpool_chunks::open;
use stitchpool_driver::Address;

impl Engine {
    /// Opens and fills those of a ground, and notes which they were. Says how many bytes came back.
    pub(crate) fn fill_unfilled(&self, mapper: &mut Mapper, ground: &Ground, filled: &mut Vec<Address>) -> Result<u64> {
        let left =
            mapper.unfilled.iter().filter(|(at, (heap, _))| ground.span.contains(at) && ground.heaps.contains(heap));
        // An arena comes back without its blocks that were evicted.
        let stays = |at: u64| !ground.arenas.is_empty() && mapper.chain_holding(at).is_some_and(|chain| chain.evicted);
        let places: Vec<u64> = left.map(|(&at, _)| at).filter(|&at| !stays(at)).collect();
        let mut restored_bytes = 0;
        for at in places {
            let Some((index, content)) = mapper.unfilled.remove(&at) else { continue };
            match self.fill_mapped(mapper, index, Address(at), &content) {
                Ok(bytes) => {
                    restored_bytes += bytes;
                    filled.push(Address(at));
                    mapper.put_trays(content.into_trays());
                }
                Err(error) => {
                    mapper.unfilled.insert(at, (index, content));
                    return Err(error);
                }
            }
        }
        Ok(restored_bytes)
    }

    fn fill_mapped(&self, mapper: &Mapper, heap: u32, at: Address, content: &Content) -> Result<u64> {
        let tenant = self.registry.heap(heap).and_then(|heap| heap.inside.lock().tenant.clone());
        let (Some(tenant), Some(mapping)) = (tenant, mapper.slot_holding(at.0).and_then(Slot::current)) else {
            return Ok(0);
        };
        let stream = tenant.clock.default_stream();
        let (bytes, device) = (mapping.bytes(), mapping.device());
        let grants = mapper.chain_holding(at.0).map(|chain| chain.grants_at(at, &tenant.grants)).unwrap_or_default();
        let sleeper = Sleeper { heap, at, bytes, device, stream, grants };
        open([mapping], &sleeper.filling_grants())?;
        let mut courier = Courier::new(&self.origin);
        let restored_bytes = self.fill(&mut courier, &mut ReadAhead::over([content]), &sleeper, content)?;
        courier.mark(bytes)?.reach(self.settings.wait_max)?;
        sleeper.settle_rights(mapper)?;
        Ok(restored_bytes)
    }
}
