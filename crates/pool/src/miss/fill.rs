//! Carries out the plan of a growable buffer's portion: what is idle there is taken back, gaps are filled,
//! and every handle becomes a live block of its own. All of it, or nothing.

use crate::heap::taken::take;
use crate::mapper::chain::Gap;
use crate::mapper::slot::Slot;
use crate::miss::candidate::fences;
use crate::miss::job::Waits;
use crate::miss::plan::Plan;
use crate::miss::stitch::{Brought, Room, Setback, Stitch};
use crate::unit::units_of;
use std::sync::Arc;
use stitchpool_chunks::{Mapping, PhysicalHandle, Vacancy, map_run_by, take_down};

/// A gap whose handles are mapped; the chain does not know them yet.
struct Filled {
    room: Room,
    run: Vec<Mapping>,
    rest: Option<Vacancy>,
}

impl Stitch<'_> {
    /// Takes idle slots of the own chain out of the free bytes and pending blocks.
    pub(crate) fn take_back(&mut self, idle: &[Gap]) -> Result<(), Setback> {
        let slots: Option<Vec<&Slot>> = idle.iter().map(|gap| self.mapper.slot_holding(gap.start)).collect();
        let slots = slots.ok_or(Setback::Overtaken)?;
        let taker = &self.job.tenant.clock;
        let mut inside = self.job.heap.inside.lock();
        for (slot, fences) in slots.iter().zip(fences(&inside, &slots)) {
            let covered = fences.iter().all(|fence| self.mapper.order.covers(taker, fence));
            if !covered && self.job.waits == Waits::None {
                return Err(Setback::Overtaken);
            }
            let taken = take(&mut inside, self.job.heap.index, slot.at().0, units_of(slot.bytes()));
            self.taken.push(taken.ok_or(Setback::Overtaken)?);
            self.fences.extend(fences);
        }
        Ok(())
    }

    /// Fills the gaps of the plan with the handles that were brought, and enters all blocks.
    pub(crate) fn fill_portion(&mut self, plan: &Plan, chain: u64) -> Result<u64, Setback> {
        let mut filled: Vec<Filled> = Vec::with_capacity(plan.lack.gaps.len());
        let mut brought = self.handles.iter().map(|brought| brought.handle.clone()).collect::<Vec<_>>().into_iter();
        for gap in &plan.lack.gaps {
            let mut bytes = 0;
            let mut handles = Vec::new();
            while bytes < gap.bytes
                && let Some(handle) = brought.next()
            {
                bytes += handle.bytes();
                handles.push(handle);
            }
            match self.fill_gap(Room { chain, start: gap.start }, handles) {
                Ok(gap) => filled.push(gap),
                Err(setback) => {
                    for Filled { room, run, rest } in filled {
                        self.mapper.put_back_room(room.chain, room.start, take_down(run, rest));
                    }
                    return Err(setback);
                }
            }
        }
        self.commit_portion(plan, filled);
        Ok(chain)
    }

    fn fill_gap(&mut self, room: Room, handles: Vec<Arc<PhysicalHandle>>) -> Result<Filled, Setback> {
        let chain = self.mapper.chains.get_mut(&room.chain).ok_or(Setback::Overtaken)?;
        let vacancy = if chain.cut(room.start) { chain.take_gap(room.start) } else { None };
        let (rights, given) = (chain.rights.clone(), &self.job.tenant.grants);
        match map_run_by(vacancy.ok_or(Setback::Overtaken)?, handles, |at| rights.at(at, given)) {
            Ok((run, rest)) => Ok(Filled { room, run, rest }),
            Err(failure) => {
                self.mapper.put_back_room(room.chain, room.start, failure.vacancies);
                Err(failure.error.into())
            }
        }
    }

    fn commit_portion(&mut self, plan: &Plan, filled: Vec<Filled>) {
        let mut blocks: Vec<Gap> = plan.lack.idle.clone();
        let mut brought = std::mem::take(&mut self.handles).into_iter();
        for Filled { room, run, rest } in filled {
            blocks.extend(run.iter().map(|mapping| Gap { start: mapping.at().0, bytes: mapping.bytes() }));
            let handles: Vec<Brought> = brought.by_ref().take(run.len()).collect();
            let slots = self.enter(run, handles);
            if let Some(chain) = self.mapper.chains.get_mut(&room.chain) {
                chain.fill(room.start, slots, rest);
            }
        }
        self.taken.clear();
        let heap = self.job.heap;
        let mut inside = heap.inside.lock();
        for block in blocks {
            heap.enter(&mut inside, block.start, units_of(block.bytes));
        }
    }
}
