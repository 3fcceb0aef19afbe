//! A chain: a run of slots at consecutive addresses, a slot one mapped handle. It belongs to one heap
//! for its life and decides nothing.

use crate::clock::Fence;
use crate::mapper::backup::Content;
use crate::mapper::overrides::Overrides;
use crate::mapper::parts::Parts;
use crate::mapper::slot::Slot;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use stitchpool_chunks::{PhysicalHandle, Vacancy, join_all, open};
use stitchpool_driver::{Address, DeviceId, Error, Grant};

/// A run of slots and the room behind it.
#[derive(Debug)]
pub(crate) struct Chain {
    at: Address,
    /// Where the last slot must end: a granule before the next chain, so that no extent joins across.
    end: Address,
    /// The heap whose extents and blocks lie in its slots.
    heap: u32,
    /// In address order, without a gap from `at` on.
    slots: Vec<Slot>,
    /// Who has rights here, over what the heap gives.
    pub(crate) rights: Overrides,
    /// Where a growable buffer's parts were sent, over what its placement says.
    pub(crate) places: Parts<DeviceId>,
    /// The room behind the last slot. None iff a failed undo has lost part of it.
    tail: Option<Vacancy>,
    /// Iff a growable buffer has it, the serial of that buffer's stream: it then stays although it has no slots,
    /// and is that buffer's alone.
    kept_for: Option<u32>,
    /// When its block was last used, as the pool counts uses.
    pub(crate) used: Arc<AtomicU64>,
    /// Iff its block was put out because memory was short, and not brought back yet.
    pub(crate) evicted: bool,
}

/// A run of addresses of a chain that nothing stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Gap {
    pub(crate) const fn end(self) -> u64 {
        self.start + self.bytes
    }
}

impl Chain {
    /// A chain without slots over a vacancy of which the last granule stays empty.
    pub(crate) fn new(vacancy: Vacancy, heap: u32, granule_bytes: u64) -> Self {
        let end = Address(vacancy.end().0 - granule_bytes);
        let rights = Overrides::default();
        Self {
            at: vacancy.at(),
            end,
            heap,
            slots: Vec::new(),
            rights,
            places: Parts::default(),
            tail: Some(vacancy),
            kept_for: None,
            used: Arc::default(),
            evicted: false,
        }
    }

    pub(crate) const fn at(&self) -> Address {
        self.at
    }

    /// Where its last slot must end.
    pub(crate) const fn end(&self) -> Address {
        self.end
    }

    pub(crate) const fn heap(&self) -> u32 {
        self.heap
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Who gets rights on what is mapped at `at`, where the heap gives `given`.
    pub(crate) fn grants_at(&self, at: Address, given: &Arc<[Grant]>) -> Arc<[Grant]> {
        self.rights.at(at, given)
    }

    /// Where the next slot would begin.
    pub(crate) fn top(&self) -> Address {
        self.slots.last().map_or(self.at, Slot::end)
    }

    /// Where handles can be put: runs of holes, and the room behind the last slot; in address order.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = Vec::new();
        for slot in self.slots.iter().filter(|slot| matches!(slot, Slot::Hole(_))) {
            match gaps.last_mut() {
                Some(gap) if gap.end() == slot.at().0 => gap.bytes += slot.bytes(),
                _ => gaps.push(Gap { start: slot.at().0, bytes: slot.bytes() }),
            }
        }
        let (top, end) = (self.top().0, self.end.0);
        if self.tail.is_some() && top < end {
            gaps.push(Gap { start: top, bytes: end - top });
        }
        gaps
    }

    /// Makes a gap begin at `start`, which lies in a hole or in the room at the end. False: it does not.
    pub(crate) fn cut(&mut self, start: u64) -> bool {
        if start >= self.top().0 {
            let behind_bytes = start - self.top().0;
            let Some(tail) = self.tail.take() else { return false };
            let (hole, rest) = match tail.split(behind_bytes) {
                Ok((low, high)) => (Some(low), high),
                Err(whole) => (None, whole),
            };
            self.slots.extend(hole.map(Slot::Hole));
            self.tail = Some(rest);
            return self.top().0 == start;
        }
        let index = self.slots.partition_point(|slot| slot.end().0 <= start);
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let (at, bytes) = (slot.at(), slot.bytes());
        match std::mem::replace(slot, Slot::Lost { at, bytes }) {
            Slot::Hole(hole) => {
                let halves = hole.split(start - at.0).map_or_else(|whole| vec![whole], |(low, high)| vec![low, high]);
                self.slots.splice(index..=index, halves.into_iter().map(Slot::Hole));
                true
            }
            other => {
                self.slots[index] = other;
                false
            }
        }
    }

    /// A growable buffer of so many bytes, of the stream of this serial, has it from now on.
    pub(crate) fn keep(&mut self, bytes: u64, serial: u32) {
        self.kept_for = Some(serial);
        self.end = self.at + bytes;
    }

    /// The buffer is gone.
    pub(crate) const fn let_go(&mut self) {
        self.kept_for = None;
    }

    /// Whether a growable buffer has it.
    pub(crate) const fn is_kept(&self) -> bool {
        self.kept_for.is_some()
    }

    /// Whether a growable buffer of the stream of this serial has it.
    pub(crate) fn is_kept_for(&self, serial: u32) -> bool {
        self.kept_for == Some(serial)
    }

    /// Whether `address` is a growable buffer's, which has this chain.
    pub(crate) fn is_kept_at(&self, address: Address) -> bool {
        self.is_kept() && address < self.end
    }

    /// Whether slots can stand up to `end`.
    pub(crate) fn reaches(&self, end: u64) -> bool {
        end <= self.top().0 || (end <= self.end.0 && self.tail.as_ref().is_some_and(|tail| end <= tail.end().0))
    }

    /// Whether nothing is left of it that anybody has.
    pub(crate) fn is_over(&self) -> bool {
        self.slots.is_empty() && !self.is_kept()
    }

    /// Takes the vacancy of the gap that starts at `start` out of the chain. [`Chain::fill`] follows, or
    /// [`Chain::put_back`].
    pub(crate) fn take_gap(&mut self, start: u64) -> Option<Vacancy> {
        if start == self.top().0 {
            return self.tail.take();
        }
        let first = self.first_slot_from(Address(start));
        let count = self.slots[first..].iter().take_while(|slot| matches!(slot, Slot::Hole(_))).count();
        let holes = self.slots.drain(first..first + count).filter_map(Slot::into_hole);
        let mut joined = join_all(holes);
        if joined.len() == 1 {
            return joined.pop();
        }
        self.put_back(start, joined);
        None
    }

    /// Puts slots where a gap was taken from, and what is left of its vacancy behind them.
    pub(crate) fn fill(&mut self, start: u64, slots: Vec<Slot>, rest: Option<Vacancy>) {
        if start == self.top().0 {
            self.slots.extend(slots);
            self.tail = rest;
            return;
        }
        let first = self.first_slot_from(Address(start));
        self.slots.splice(first..first, slots.into_iter().chain(rest.map(Slot::Hole)));
    }

    /// Puts the vacancy of a gap back, or what a failed undo has left of it.
    pub(crate) fn put_back(&mut self, start: u64, mut vacancies: Vec<Vacancy>) {
        if start == self.top().0 {
            let whole = vacancies.len() == 1 && vacancies[0].at().0 == start;
            self.tail = if whole { vacancies.pop() } else { None };
            return;
        }
        let first = self.first_slot_from(Address(start));
        let end = self.slots.get(first).map_or(start, |slot| slot.at().0);
        let mut slots = Vec::with_capacity(vacancies.len());
        let mut at = start;
        for vacancy in vacancies {
            let lost_bytes = vacancy.at().0 - at;
            if lost_bytes > 0 {
                slots.push(Slot::Lost { at: Address(at), bytes: lost_bytes });
            }
            at = vacancy.end().0;
            slots.push(Slot::Hole(vacancy));
        }
        if at < end {
            slots.push(Slot::Lost { at: Address(at), bytes: end - at });
        }
        self.slots.splice(first..first, slots);
    }

    /// Index of the first slot that begins at or after `address`.
    pub(crate) fn first_slot_from(&self, address: Address) -> usize {
        self.slots.partition_point(|slot| slot.at() < address)
    }

    /// The slot that holds `address`.
    pub(crate) fn slot_holding(&self, address: Address) -> Option<&Slot> {
        self.slots.get(self.slots.partition_point(|slot| slot.end() <= address))
    }

    fn slot_mut(&mut self, at: Address) -> Option<&mut Slot> {
        let index = self.first_slot_from(at);
        self.slots.get_mut(index).filter(|slot| slot.at() == at)
    }

    /// The slot at `at` loses its handle to an alias elsewhere, or its view is gone.
    pub(crate) fn make_stale(&mut self, at: Address, fences: Vec<Fence>) {
        let Some(slot) = self.slot_mut(at) else { return };
        let lost = Slot::Lost { at, bytes: slot.bytes() };
        *slot = match std::mem::replace(slot, lost) {
            Slot::Current { mapping, .. } | Slot::Viewed(mapping) => Slot::Stale { mapping, fences },
            other => other,
        };
    }

    /// Unmaps the slot at `at`, whose fences are past, and gives its handle. On a refusal the slot is
    /// as it was.
    pub(crate) fn unmap(&mut self, at: Address) -> Result<Option<Arc<PhysicalHandle>>, Error> {
        let Some(slot) = self.slot_mut(at) else { return Ok(None) };
        let lost = Slot::Lost { at, bytes: slot.bytes() };
        let (changed, outcome) = match std::mem::replace(slot, lost) {
            Slot::Current { mapping, carried } => match mapping.unmap() {
                Ok((vacancy, handle)) => (Slot::Hole(vacancy), Ok(Some(handle))),
                Err((error, mapping)) => (Slot::Current { mapping, carried }, Err(error)),
            },
            Slot::Stale { mapping, fences } => match mapping.unmap() {
                Ok((vacancy, handle)) => (Slot::Hole(vacancy), Ok(Some(handle))),
                Err((error, mapping)) => (Slot::Stale { mapping, fences }, Err(error)),
            },
            other => (other, Ok(None)),
        };
        *slot = changed;
        outcome
    }

    /// Unmaps the slot at `at`, on which no work is queued or running; the handle waits in it. On a refusal
    /// the slot is as it was.
    pub(crate) fn lay_down(&mut self, at: Address) -> Result<(), Error> {
        let Some(slot) = self.slot_mut(at) else { return Ok(()) };
        let lost = Slot::Lost { at, bytes: slot.bytes() };
        let (changed, outcome) = match std::mem::replace(slot, lost) {
            Slot::Current { mapping, carried } => match mapping.unmap() {
                Ok((vacancy, handle)) => {
                    let device = handle.device();
                    (Slot::Asleep { vacancy, device, content: Content::Handle(handle) }, Ok(()))
                }
                Err((error, mapping)) => (Slot::Current { mapping, carried }, Err(error)),
            },
            other => (other, Ok(())),
        };
        *slot = changed;
        outcome
    }

    /// Maps `handles` into the sleeping slots from `start` on, one each, and opens them. Gives what the slots
    /// held.
    pub(crate) fn raise(
        &mut self,
        start: Address,
        handles: Vec<Arc<PhysicalHandle>>,
        grants: &[Grant],
    ) -> Result<Held, (Error, Held)> {
        let first = self.first_slot_from(start);
        let mut held = Held::with_capacity(handles.len());
        for (slot, handle) in self.slots[first..].iter_mut().zip(handles) {
            match slot.wake(handle) {
                Ok(Some(content)) => held.push((slot.at(), content)),
                Ok(None) => {}
                Err(error) => return Err((error, self.lie_down_again(held))),
            }
        }
        let run = self.slots[first..].iter().take(held.len()).filter_map(Slot::current);
        match open(run, grants) {
            Ok(()) => Ok(held),
            Err(error) => Err((error, self.lie_down_again(held))),
        }
    }

    /// Undoes a `raise`. A slot that the driver would not unmap, asked twice, stays mapped: what it held
    /// comes back.
    fn lie_down_again(&mut self, held: Held) -> Held {
        let mut stuck = Held::new();
        for (at, content) in held {
            match self.lay_down(at).or_else(|_| self.lay_down(at)) {
                Ok(()) => drop(self.set_content(at, content)),
                Err(_) => stuck.push((at, content)),
            }
        }
        stuck
    }

    /// Says what the sleeping slot at `at` holds from now on, and gives what it held.
    pub(crate) fn set_content(&mut self, at: Address, new: Content) -> Option<Content> {
        match self.slot_mut(at)? {
            Slot::Asleep { content, .. } => Some(std::mem::replace(content, new)),
            _ => None,
        }
    }

    /// Makes the sleeping slot at `at`, of which nothing is in use any more, a hole; gives what it held.
    pub(crate) fn forget(&mut self, at: Address) -> Option<Content> {
        let slot = self.slot_mut(at)?;
        let lost = Slot::Lost { at, bytes: slot.bytes() };
        let (changed, content) = match std::mem::replace(slot, lost) {
            Slot::Asleep { vacancy, content, .. } => (Slot::Hole(vacancy), Some(content)),
            other => (other, None),
        };
        *slot = changed;
        content
    }

    /// Gives holes at the top back to the tail.
    pub(crate) fn recede(&mut self) {
        while matches!(self.slots.last(), Some(Slot::Hole(_))) {
            let Some(Slot::Hole(hole)) = self.slots.pop() else { return };
            self.tail = match self.tail.take() {
                None => Some(hole),
                // The hole was the last slot, so the tail follows it; a mismatch keeps the larger room lost.
                Some(tail) => hole.join(tail).ok(),
            };
        }
    }

    /// The whole vacancy again, if no slot is left.
    pub(crate) fn into_vacancy(self) -> Option<Vacancy> {
        if self.slots.is_empty() { self.tail } else { None }
    }

    /// Checks the invariants at the fields.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut end = self.at;
        for slot in &self.slots {
            if slot.at() != end {
                return Err(format!("a slot at {} follows the end {end}", slot.at()));
            }
            end = slot.end();
        }
        if end > self.end || self.tail.as_ref().is_some_and(|tail| tail.at() != end) {
            return Err(format!(
                "chain {} ends at {end}, its room at {}, its tail is {:?}",
                self.at, self.end, self.tail
            ));
        }
        Ok(())
    }
}

/// What sleeping slots held, by their addresses.
pub(crate) type Held = Vec<(Address, Content)>;
