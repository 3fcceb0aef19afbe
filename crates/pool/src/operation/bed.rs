//! Beds: the slots that memory leaves and comes back to, and what is in use of them.

use crate::engine::Engine;
use crate::error::Result;
use crate::heap::Heap;
use crate::mapper::Mapper;
use crate::mapper::backup::Content;
use crate::mapper::slot::Slot;
use crate::scope::Ground;
use crate::unit::units_of;
use std::collections::BTreeMap;
use std::sync::Arc;
use stitchpool_chunks::PhysicalHandle;
use stitchpool_driver::{Address, DeviceId, RawStream};

/// A slot whose memory is to leave it, and what is in use of it.
#[derive(Clone, Debug)]
pub(crate) struct Bed {
    pub(crate) heap: u32,
    pub(crate) at: Address,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceId,
    /// The default stream of the device whose stream owns the heap: it has rights on the slot.
    pub(crate) stream: RawStream,
    /// From address to address, in order.
    pub(crate) runs: Vec<(u64, u64)>,
    /// Whether the stream's device may not read it.
    pub(crate) barred: bool,
}

/// A slot whose memory nobody uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    heap: u32,
    bytes: u64,
}

/// Free bytes between blocks that are copied along rather than copied around.
const GAP_BYTES: u64 = 64 << 10;

impl Engine {
    /// The slots of the ground that nothing is live in, by address.
    pub(crate) fn idle_slots(&self, mapper: &Mapper, ground: &Ground) -> BTreeMap<Address, Idle> {
        let mut idle = BTreeMap::new();
        for heap in self.heaps_on(ground) {
            let inside = heap.inside.lock();
            if mapper.serves_graph(&inside) {
                continue;
            }
            let slots =
                slots_of(mapper, ground).filter(|(owner, slot)| *owner == heap.index && slot.current().is_some());
            let free =
                |slot: &Slot| inside.extents.holding(slot.at().0).is_some_and(|extent| slot.end().0 <= extent.end());
            let found = slots.filter(|(_, slot)| free(slot));
            idle.extend(found.map(|(heap, slot)| (slot.at(), Idle { heap, bytes: slot.bytes() })));
        }
        idle
    }

    /// Gives back the handles of idle slots.
    pub(crate) fn release_idle(&self, mapper: &mut Mapper, idle: BTreeMap<Address, Idle>) -> Result<()> {
        for (at, Idle { heap, bytes }) in idle {
            let Some(heap) = self.registry.heap(heap) else { continue };
            if !heap.inside.lock().extents.remove_range(at.0, units_of(bytes)) {
                continue;
            }
            match mapper.unmap(at) {
                Ok(handle) => handle.into_iter().for_each(|handle| mapper.settle(handle, false)),
                Err(error) => {
                    heap.inside.lock().extents.insert(at.0, units_of(bytes));
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// The slots that are to fall asleep, in address order.
    pub(crate) fn beds(&self, mapper: &Mapper, ground: &Ground) -> Vec<Bed> {
        let mut used = BTreeMap::new();
        for heap in self.heaps_on(ground) {
            let inside = heap.inside.lock();
            let Some(tenant) = &inside.tenant else { continue };
            let stream = tenant.clock.default_stream();
            let mut runs: Vec<(u64, u64)> = inside.blocks().map(|block| (block.start, block.end())).collect();
            runs.sort_unstable();
            used.insert(heap.index, (stream, tenant.grants.clone(), runs));
        }
        let filled = slots_of(mapper, ground).filter(|(_, slot)| !mapper.unfilled.contains_key(&slot.at().0));
        let current = filled.filter_map(|(heap, slot)| Some((heap, slot.current()?)));
        let beds = current.filter_map(|(heap, mapping)| {
            let (stream, grants, runs) = used.get(&heap)?;
            let (stream, at, bytes, device) = (*stream, mapping.at(), mapping.bytes(), mapping.device());
            let grants = mapper.chain_holding(at.0)?.grants_at(at, grants);
            let barred = grants.iter().all(|grant| grant.device != stream.device);
            Some(Bed { heap, at, bytes, device, stream, runs: cut(runs, at.0, mapping.end().0), barred })
        });
        beds.collect()
    }

    /// Unmaps one slot; its handle waits in it.
    pub(crate) fn unmap_bed(&self, mapper: &mut Mapper, heap: u32, at: Address, bytes: u64) -> Result<()> {
        mapper.end_doubt()?;
        let Some(chain) = mapper.chain_holding_mut(at.0) else { return Ok(()) };
        chain.lay_down(at)?;
        mapper.counts.unmapped += 1;
        if let Some(heap) = self.registry.heap(heap) {
            heap.note_asleep(bytes, 0);
        }
        Ok(())
    }

    /// Maps a handle into a bed whose slot sleeps.
    pub(crate) fn stand(&self, mapper: &mut Mapper, bed: &Bed, handle: &Arc<PhysicalHandle>) -> Result<()> {
        let Some(heap) = self.registry.heap(bed.heap) else { return Err(self.unknown(bed.at)) };
        let grants = heap.inside.lock().tenant.as_ref().map(|tenant| tenant.grants.clone());
        let Some(chain) = mapper.chain_holding_mut(bed.at.0) else { return Err(self.unknown(bed.at)) };
        let grants = chain.grants_at(bed.at, &grants.unwrap_or_default());
        match chain.raise(bed.at, vec![handle.clone()], &grants) {
            Ok(_) => {
                heap.note_asleep(0, bed.bytes);
                Ok(())
            }
            Err((error, stuck)) => {
                mapper.note_unfilled(heap, stuck);
                Err(error.into())
            }
        }
    }

    /// Lets go of sleeping slots all of whose blocks were freed meanwhile: their addresses and backups.
    pub(crate) fn forget_freed(&self, mapper: &mut Mapper) {
        for heap in self.registry.heaps().filter(|heap| heap.asleep_bytes() > 0) {
            let freed: Vec<(Address, u64)> = {
                let mut inside = heap.inside.lock();
                inside.reap();
                if mapper.serves_graph(&inside) {
                    continue;
                }
                let chains = mapper.chains.values().filter(|chain| chain.heap() == heap.index);
                let asleep = chains.flat_map(|chain| chain.slots()).filter(|slot| matches!(slot, Slot::Asleep { .. }));
                let places: Vec<(Address, u64)> = asleep.map(|slot| (slot.at(), slot.bytes())).collect();
                places.into_iter().filter(|&(at, bytes)| inside.take_asleep(at.0, at.0 + bytes)).collect()
            };
            for (at, bytes) in freed {
                self.forget_bed(mapper, heap, at, bytes);
            }
        }
    }

    fn forget_bed(&self, mapper: &mut Mapper, heap: &Heap, at: Address, bytes: u64) {
        heap.note_asleep(0, bytes);
        match mapper.forget(at) {
            Some(Content::Handle(handle)) => mapper.settle(handle, false),
            Some(content) => mapper.put_trays(content.into_trays()),
            None => {}
        }
    }
}

/// The slots of a ground, each with its heap, in address order.
pub(crate) fn slots_of<'a>(mapper: &'a Mapper, ground: &'a Ground) -> impl Iterator<Item = (u32, &'a Slot)> {
    let chains = mapper.chains.values().filter(|chain| ground.heaps.contains(&chain.heap()));
    let slots = chains.flat_map(|chain| chain.slots().iter().map(move |slot| (chain.heap(), slot)));
    slots.filter(|(_, slot)| ground.span.start <= slot.at().0 && slot.end().0 <= ground.span.end)
}

/// What of the sorted runs lies from `start` to `end`, with small gaps closed.
fn cut(runs: &[(u64, u64)], start: u64, end: u64) -> Vec<(u64, u64)> {
    let first = runs.partition_point(|run| run.1 <= start);
    let inside = runs[first..].iter().take_while(|run| run.0 < end);
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (low, high) in inside.map(|run| (run.0.max(start), run.1.min(end))) {
        match joined.last_mut() {
            Some(last) if low - last.1 <= GAP_BYTES => last.1 = high,
            _ => joined.push((low, high)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_to_the_slot_and_small_gaps_closed() {
        let far = 3 * GAP_BYTES;
        let runs = [(0, 100), (200, 300), (far, far + 50), (far + 60, far + 500)];
        assert_eq!(cut(&runs, 50, far + 100), [(50, 300), (far, far + 100)]);
        assert_eq!(cut(&runs, 300, far), []);
    }
}
