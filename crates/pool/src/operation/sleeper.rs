//! A slot that sleeps and shall wake: where it lies, and who gets rights on it. It moves nothing.

use crate::engine::Engine;
use crate::mapper::Mapper;
use crate::mapper::overrides::over;
use crate::mapper::slot::Slot;
use crate::operation::bed::slots_of;
use crate::scope::Ground;
use std::collections::BTreeMap;
use std::sync::Arc;
use stitchpool_chunks::open;
use stitchpool_driver::{Address, DeviceId, Error, Grant, RawStream, Rights};

/// A sleeping slot that shall wake.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    pub(crate) heap: u32,
    pub(crate) at: Address,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceId,
    /// The default stream of the device whose stream owns the heap: it fills the slot.
    pub(crate) stream: RawStream,
    pub(crate) grants: Arc<[Grant]>,
}

impl Sleeper {
    /// Whether `next` continues it in the same chain with the same rights.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        self.heap == next.heap && self.at + self.bytes == next.at && self.grants == next.grants
    }

    /// Who gets rights while it is filled: whoever fills it may write, whatever it may do later.
    pub(crate) fn filling_grants(&self) -> Vec<Grant> {
        over(&self.grants, &[Grant { device: self.stream.device, rights: Rights::ReadWrite }])
    }

    /// It is filled: whoever has filled it may do there from now on what was asked for.
    pub(crate) fn settle_rights(&self, mapper: &Mapper) -> Result<(), Error> {
        let device = self.stream.device;
        let asked = self.grants.iter().find(|grant| grant.device == device);
        let rights = asked.map_or(Rights::None, |grant| grant.rights);
        if rights == Rights::ReadWrite {
            return Ok(());
        }
        open(mapper.slot_holding(self.at.0).and_then(Slot::current), &[Grant { device, rights }])
    }
}

impl Engine {
    /// The slots of a ground that shall wake, in address order. An arena that wakes leaves alone what was put
    /// out of it while memory was short.
    pub(crate) fn sleepers(&self, mapper: &Mapper, ground: &Ground) -> Vec<Sleeper> {
        let mut owners: BTreeMap<u32, (RawStream, Arc<[Grant]>)> = BTreeMap::new();
        for heap in self.heaps_on(ground) {
            if let Some(tenant) = &heap.inside.lock().tenant {
                let stream = tenant.clock.default_stream();
                owners.insert(heap.index, (stream, tenant.grants.clone()));
            }
        }
        let sleepers = slots_of(mapper, ground).filter_map(|(heap, slot)| {
            let Slot::Asleep { device, .. } = slot else { return None };
            let (stream, grants) = owners.get(&heap)?;
            let stream = *stream;
            let chain = mapper.chain_holding(slot.at().0)?;
            if chain.evicted && !ground.arenas.is_empty() {
                return None;
            }
            let grants = chain.grants_at(slot.at(), grants);
            Some(Sleeper { heap, at: slot.at(), bytes: slot.bytes(), device: *device, stream, grants })
        });
        sleepers.collect()
    }
}
