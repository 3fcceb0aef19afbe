//! Carries out a plan: takes the handles, maps them at their new place, enters the block. A
//! transaction: until the commit every step can be undone, and a refusal leaves all as it was.

use crate::clock::Fence;
use crate::heap::taken::{Taken, put_back, take};
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::miss::candidate::{Wanted, fences, is_ready};
use crate::miss::job::{Job, Waits};
use crate::miss::plan::{Place, Plan, Step};
use crate::mutant::{Mutant, is_planted};
use crate::registry::Registry;
use crate::unit::units_of;
use std::collections::BTreeMap;
use std::sync::Arc;
use stitchpool_chunks::{Mapping, PhysicalHandle, Vacancy, map_run_by};
use stitchpool_driver::{Address, DeviceId, Error, ErrorKind, HandleSpec};

/// How carrying out a plan ended.
#[derive(Debug)]
pub(crate) enum Stitched {
    /// The block stands at this address.
    Block(u64),
    /// Another thread took what the plan counted on; nothing has changed.
    Overtaken,
    /// The driver refused; nothing has changed. If it was for want of memory, how much its device turned out to have
    /// left at most.
    Refused(Error, Option<u64>),
}

/// Why a plan was given up half way.
pub(crate) enum Setback {
    Overtaken,
    Refused(Error, Option<u64>),
}

impl From<Error> for Setback {
    fn from(error: Error) -> Self {
        Self::Refused(error, None)
    }
}

/// One plan being carried out. What it holds was taken from heaps and stock and is put back unless it
/// commits.
pub(crate) struct Stitch<'a> {
    pub(crate) mapper: &'a mut Mapper,
    registry: &'a Registry,
    pub(crate) job: &'a Job<'a>,
    /// Bytes taken out of free extents or pending blocks, each to go back where it was.
    pub(crate) taken: Vec<Taken>,
    /// What of that was taken back in place may still be used up to these points.
    pub(crate) fences: Vec<Fence>,
    /// Handles for the new place, in address order.
    pub(crate) handles: Vec<Brought>,
}

/// A gap whose vacancy was taken out of its chain.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) chain: u64,
    pub(crate) start: u64,
}

/// A handle that was brought for the new place.
pub(crate) struct Brought {
    pub(crate) handle: Arc<PhysicalHandle>,
    source: Source,
}

/// Where it comes from.
enum Source {
    Stock,
    Created,
    /// It stands here until the commit makes this slot stale.
    Slot {
        at: u64,
        fences: Vec<Fence>,
    },
}

impl Source {
    /// The points up to which the handle may still be used.
    fn fences(&self) -> &[Fence] {
        match self {
            Self::Slot { fences, .. } => fences,
            Self::Stock | Self::Created => &[],
        }
    }
}

impl<'a> Stitch<'a> {
    pub(crate) fn new(mapper: &'a mut Mapper, registry: &'a Registry, job: &'a Job<'a>) -> Self {
        Self { mapper, registry, job, taken: Vec::new(), fences: Vec::new(), handles: Vec::new() }
    }

    pub(crate) fn carry_out(mut self, plan: &Plan) -> Stitched {
        match self.try_plan(plan) {
            Ok(address) => Stitched::Block(address),
            Err(setback) => {
                self.undo();
                tracing::debug!("a plan was given up, and all put back");
                match setback {
                    Setback::Overtaken => Stitched::Overtaken,
                    Setback::Refused(error, left_bytes) => Stitched::Refused(error, left_bytes),
                }
            }
        }
    }

    fn try_plan(&mut self, plan: &Plan) -> Result<u64, Setback> {
        if let Place::Gap { gap, start, behind_bytes, .. } = plan.place {
            self.take_free(start, gap.start)?;
            self.take_free(gap.end(), gap.end() + behind_bytes)?;
        }
        self.take_back(&plan.lack.idle)?;
        self.steal(&plan.steps)?;
        self.wait()?;
        self.provide(&plan.steps)?;
        if let Some(portion) = self.job.portion {
            return self.fill_portion(plan, portion.chain);
        }
        let (room, vacancy) = self.find_room(plan)?;
        let handles = self.handles.iter().map(|brought| brought.handle.clone()).collect();
        let rights = self.mapper.chains.get(&room.chain).map(|chain| chain.rights.clone()).unwrap_or_default();
        match map_run_by(vacancy, handles, |at| rights.at(at, &self.job.tenant.grants)) {
            Ok((run, rest)) => Ok(self.commit(plan.place, room, run, rest)),
            Err(failure) => {
                self.mapper.put_back_room(room.chain, room.start, failure.vacancies);
                Err(failure.error.into())
            }
        }
    }

    /// Takes free bytes that the block will stand in, so that no hit takes them meanwhile.
    fn take_free(&mut self, start: u64, end: u64) -> Result<(), Setback> {
        let units = units_of(end - start);
        if units == 0 {
            return Ok(());
        }
        if !self.job.heap.inside.lock().extents.remove_range(start, units) {
            return Err(Setback::Overtaken);
        }
        self.taken.push(Taken { heap: self.job.heap.index, start, units, pending: Vec::new() });
        Ok(())
    }

    /// Takes the handles of the plan's steps out of their heaps, one heap at a time, and brings them
    /// into the order of the steps.
    fn steal(&mut self, steps: &[Step]) -> Result<(), Setback> {
        let mut by_heap: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for step in steps {
            if let Step::Steal(candidate) = step {
                by_heap.entry(candidate.heap).or_default().push(candidate.at);
            }
        }
        let mut stolen = BTreeMap::new();
        for (heap, mut places) in by_heap {
            places.sort_unstable();
            self.take_handles(heap, &places, &mut stolen)?;
        }
        let in_order = steps.iter().filter_map(|step| match step {
            Step::Steal(candidate) => stolen.remove(&candidate.at),
            _ => None,
        });
        self.handles = in_order.collect();
        Ok(())
    }

    /// Takes handles' bytes out of a heap, under the same hold in which they are found free and their
    /// fences are read.
    fn take_handles(&mut self, heap: u32, places: &[u64], stolen: &mut BTreeMap<u64, Brought>) -> Result<(), Setback> {
        let heap = self.registry.heap(heap).ok_or(Setback::Overtaken)?;
        let slots: Option<Vec<&Slot>> = places.iter().map(|&at| self.mapper.slot_holding(at)).collect();
        let slots = slots.ok_or(Setback::Overtaken)?;
        let mut inside = heap.inside.lock();
        for (slot, fences) in slots.iter().zip(fences(&inside, &slots)) {
            let handle = slot.current().ok_or(Setback::Overtaken)?.handle().clone();
            let wanted = Wanted {
                device: handle.device(),
                kind: handle.kind(),
                taker: Some(&self.job.tenant.clock),
                pending: self.job.waits > Waits::None,
            };
            if !wanted.pending && !is_ready(self.mapper, &wanted, &fences) {
                return Err(Setback::Overtaken);
            }
            let at = slot.at().0;
            self.taken.push(take(&mut inside, heap.index, at, units_of(slot.bytes())).ok_or(Setback::Overtaken)?);
            stolen.insert(at, Brought { handle, source: Source::Slot { at, fences } });
        }
        Ok(())
    }

    /// Puts the taker behind every stream whose work may still use a taken handle.
    fn wait(&mut self) -> Result<(), Setback> {
        let taker = &self.job.tenant.clock;
        let mut waits: BTreeMap<u32, Fence> = BTreeMap::new();
        let stolen = self.handles.iter().flat_map(|brought| brought.source.fences());
        for fence in self.fences.iter().chain(stolen).filter(|fence| !self.mapper.order.covers(taker, fence)) {
            let known = waits.entry(fence.clock.serial()).or_insert_with(|| fence.clone());
            known.epoch = known.epoch.max(fence.epoch);
        }
        for fence in waits.into_values() {
            let origin = self.mapper.origin.clone();
            if self.job.waits == Waits::Cpu {
                self.mapper.counts.cpu_waits += 1;
                tracing::debug!(waited = fence.clock.serial(), "the CPU waits for another stream's memory");
                fence.clock.finish(fence.epoch, self.mapper.settings.wait_max, &origin)?;
                continue;
            }
            let behind = fence.clock.hold_back(taker.raw(), fence.epoch, &origin)?;
            self.mapper.counts.stream_waits += 1;
            self.mapper.order.raise(taker, &fence.clock, behind);
            tracing::debug!(
                waiter = taker.serial(),
                waited = fence.clock.serial(),
                "a stream waits for another's memory"
            );
        }
        Ok(())
    }

    /// Takes idle handles and creates new ones, and brings all into the order of the steps.
    fn provide(&mut self, steps: &[Step]) -> Result<(), Setback> {
        let mut stolen = std::mem::take(&mut self.handles).into_iter();
        let kind = self.mapper.settings.kind;
        for step in steps {
            let brought = match *step {
                Step::Steal(_) => stolen.next().ok_or(Setback::Overtaken),
                Step::Stock { device, bytes } => {
                    let handle = self.mapper.stock.take_at_most(device, kind, bytes).ok_or(Setback::Overtaken);
                    handle.map(|handle| Brought { handle, source: Source::Stock })
                }
                Step::Create { device, bytes } => self.create(HandleSpec { device, bytes, kind }),
            };
            match brought {
                Ok(brought) => self.handles.push(brought),
                Err(setback) => {
                    self.handles.extend(stolen);
                    return Err(setback);
                }
            }
        }
        Ok(())
    }

    /// A new handle. A driver that refuses it has given as much as was created before: it has less left than both.
    fn create(&self, spec: HandleSpec) -> Result<Brought, Setback> {
        let created = PhysicalHandle::create(&self.mapper.origin, spec);
        created.map(|handle| Brought { handle, source: Source::Created }).map_err(|error| {
            let on_device = |brought: &&Brought| {
                matches!(brought.source, Source::Created) && brought.handle.device() == spec.device
            };
            let given_bytes: u64 = self.handles.iter().filter(on_device).map(|brought| brought.handle.bytes()).sum();
            let left_bytes = given_bytes + spec.bytes.saturating_sub(self.mapper.granule_bytes());
            let is_short = error.kind == ErrorKind::OutOfMemory;
            Setback::Refused(error, is_short.then_some(left_bytes))
        })
    }

    /// The vacancy to map in, and the gap it was taken from.
    fn find_room(&mut self, plan: &Plan) -> Result<(Room, Vacancy), Setback> {
        let bytes: u64 = self.handles.iter().map(|brought| brought.handle.bytes()).sum();
        if let Place::Gap { chain, gap, .. } = plan.place {
            let found = self.mapper.chains.get_mut(&chain);
            let vacancy = found.and_then(|chain| chain.take_gap(gap.start)).ok_or(Setback::Overtaken)?;
            return Ok((Room { chain, start: gap.start }, vacancy));
        }
        // Room to grow in place is worth addresses, but never used by a block that is alone in its chain.
        let generous = !self.job.tenant.key.exclusive;
        let (chain, vacancy) = self.mapper.open_room(bytes, self.job.heap.index, generous)?;
        Ok((Room { chain, start: chain }, vacancy))
    }

    /// Everything stands: old slots become stale, new ones current, and the block is entered.
    fn commit(&mut self, place: Place, room: Room, run: Vec<Mapping>, rest: Option<Vacancy>) -> u64 {
        let run_end = run.last().map_or(room.start, |mapping| mapping.end().0);
        let handles = std::mem::take(&mut self.handles);
        let slots = self.enter(run, handles);
        if let Some(chain) = self.mapper.chains.get_mut(&room.chain) {
            chain.fill(room.start, slots, rest);
        }
        self.taken.clear();
        let start = match place {
            Place::Gap { start, .. } => start,
            Place::New | Place::Portion { .. } => room.start,
        };
        let end = start + self.job.bytes();
        tracing::debug!(at = %Address(start), bytes = self.job.bytes(), run_bytes = run_end - room.start, "stitched");
        let mut inside = self.job.heap.inside.lock();
        self.job.heap.enter(&mut inside, start, self.job.units);
        if end < run_end {
            inside.extents.insert(end, units_of(run_end - end));
        }
        start
    }

    /// Makes slots of mapped handles, which leave the places they come from.
    pub(crate) fn enter(&mut self, run: Vec<Mapping>, handles: Vec<Brought>) -> Vec<Slot> {
        let calm_bytes: BTreeMap<_, _> =
            self.mapper.budgets.iter().map(|(device, budget)| (*device, budget.calm_bytes())).collect();
        let mut slots = Vec::with_capacity(run.len());
        for (mapping, brought) in run.into_iter().zip(handles) {
            let carried = self.leave_source(brought, &calm_bytes);
            slots.push(Slot::Current { mapping, carried });
        }
        slots
    }

    /// Books one handle out of where it came from; gives the fences it carries to its new place.
    fn leave_source(&mut self, brought: Brought, calm_bytes: &BTreeMap<DeviceId, u64>) -> Vec<Fence> {
        let (device, bytes) = (brought.handle.device(), brought.handle.bytes());
        match brought.source {
            Source::Stock => Vec::new(),
            Source::Created => {
                self.mapper.count_in(device, bytes);
                let calm_bytes = calm_bytes.get(&device).copied().unwrap_or(0);
                self.mapper.counts.forced_bytes += self.mapper.held_bytes(device).saturating_sub(calm_bytes).min(bytes);
                Vec::new()
            }
            Source::Slot { at, fences } => {
                self.mapper.counts.aliased += 1;
                self.mapper.make_stale(Address(at), fences.clone());
                if is_planted(Mutant::DropCarried) { Vec::new() } else { fences }
            }
        }
    }

    /// Puts back all that was taken. Created handles are released by their drop.
    fn undo(&mut self) {
        for brought in std::mem::take(&mut self.handles) {
            if matches!(brought.source, Source::Stock) {
                self.mapper.stock.park(brought.handle);
            }
        }
        for taken in std::mem::take(&mut self.taken) {
            if let Some(heap) = self.registry.heap(taken.heap) {
                put_back(&mut heap.inside.lock(), taken);
            }
        }
    }
}
