//! What the heaps have on a device that a miss could take, found when it is first asked for.

use crate::heap::Heap;
use crate::mapper::Mapper;
use crate::miss::candidate::{Wanted, candidates, sort_oldest_last};
use crate::miss::job::{Job, Waits};
use crate::miss::plan::Place;
use crate::miss::victims::Victims;
use crate::registry::Registry;
use std::collections::BTreeMap;
use stitchpool_driver::DeviceId;

/// The markets of all devices, for one job.
pub(crate) struct Markets<'a> {
    pub(crate) mapper: &'a Mapper,
    registry: &'a Registry,
    pub(crate) job: &'a Job<'a>,
    open: BTreeMap<DeviceId, Market>,
}

impl<'a> Markets<'a> {
    pub(crate) fn new(mapper: &'a Mapper, registry: &'a Registry, job: &'a Job<'a>) -> Self {
        Self { mapper, registry, job, open: BTreeMap::new() }
    }

    /// What the heaps have on `device`. Streams whose memory is not ready are sealed and asked first,
    /// so that the next miss knows more.
    pub(crate) fn on(&mut self, device: DeviceId) -> &Market {
        let (mapper, job, registry) = (self.mapper, self.job, self.registry);
        self.open.entry(device).or_insert_with(|| {
            let mut market = Market::default();
            if job.captured {
                return market;
            }
            let kind = mapper.settings.kind;
            let wanted = Wanted { device, kind, taker: Some(&job.tenant.clock), pending: job.waits > Waits::None };
            registry.heaps().for_each(|heap| market.add(mapper, heap, job, &wanted));
            market
        })
    }
}

/// What the heaps have on one device, found when it is first needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Market {
    /// What is ready for the taker, by heap.
    pub(crate) ready: BTreeMap<u32, Victims>,
    /// Not ready, or pending.
    pub(crate) waiting: Victims,
}

impl Market {
    fn add(&mut self, mapper: &Mapper, heap: &Heap, job: &Job<'_>, wanted: &Wanted<'_>) {
        let mut inside = heap.inside.lock();
        let Some(tenant) = inside.tenant.clone() else { return };
        if mapper.serves_graph(&inside) {
            return;
        }
        let foreign_clock = tenant.clock.serial() != job.tenant.clock.serial();
        if foreign_clock && inside.log.last_epoch() > tenant.clock.passed() {
            let epoch = inside.log.last_epoch();
            drop(inside);
            // A refusal leaves the epoch unpassed: the memory is then not ready, which is safe.
            let sealed = if tenant.clock.is_open(epoch) { tenant.clock.seal(&mapper.origin) } else { Ok(()) };
            if let Err(error) = sealed.and_then(|()| tenant.clock.poll()) {
                tracing::debug!(%error, "a stream could not be sealed");
            }
            inside = heap.inside.lock();
            // Then nothing of the heap is ready, whatever was freed long ago.
            if inside.log.lost_epoch() > tenant.clock.passed() {
                inside.log.lengthen();
            }
        }
        let mut found = candidates(mapper, &inside, heap.index, wanted);
        sort_oldest_last(&inside, &mut found);
        for candidate in found {
            match candidate.ready {
                true => self.ready.entry(heap.index).or_default().add(candidate),
                // What a stream frees while a capture keeps it quiet can be waited for when that has ended.
                false if foreign_clock && tenant.clock.is_quiet() => {}
                false => self.waiting.add(candidate),
            }
        }
    }

    /// The same without the free extents that the block will stand in.
    pub(crate) fn without(&self, place: Place) -> Self {
        let mut copy = self.clone();
        for victims in copy.ready.values_mut().chain([&mut copy.waiting]) {
            victims.retain(|candidate| !place.holds(candidate));
        }
        copy
    }

    /// Heaps in the order in which they give: the one with most to spare misses it least. (A small heap
    /// that gives first, its own above all, loses what it needs again at once, and streams end up
    /// taking the same handles from each other for ever.)
    pub(crate) fn givers(&self) -> Vec<u32> {
        let mut givers: Vec<(u64, u32)> = self.ready.iter().map(|(&heap, victims)| (victims.bytes(), heap)).collect();
        givers.sort_unstable_by_key(|&(bytes, heap)| (std::cmp::Reverse(bytes), heap));
        givers.into_iter().map(|(_, heap)| heap).collect()
    }
}
