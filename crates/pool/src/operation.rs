//! How an operation on memory that stays at its address takes its ground for itself: it closes arenas, waits
//! for work, and opens them again. It moves nothing.

pub(crate) mod batch;
pub(crate) mod bed;
pub(crate) mod courier;
pub(crate) mod freight;
pub(crate) mod incoming;
pub(crate) mod loan;
pub(crate) mod rack;
pub(crate) mod read_ahead;
pub(crate) mod risen;
pub(crate) mod sleep;
pub(crate) mod sleeper;
pub(crate) mod stowage;
pub(crate) mod swap;
pub(crate) mod unfilled;
pub(crate) mod visibility;
pub(crate) mod wake;

use crate::arena::{ArenaId, Wakefulness};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::inside::Inside;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::operation::bed::slots_of;
use crate::scope::{Ground, Scope};
use parking_lot::MutexGuard;
use std::collections::BTreeSet;
use stitchpool_chunks::synchronize;
use stitchpool_driver::DeviceId;

impl Engine {
    /// Takes what of a scope is in state `from` for an operation, whole arenas where it names such; nothing is
    /// allocated there meanwhile. `None`: there is nothing.
    pub(crate) fn close(&self, scope: Scope, from: Wakefulness, operation: &'static str) -> Result<Option<Ground>> {
        let mut mapper = self.mapper.lock();
        self.refuse_captures(&mut mapper, operation)?;
        let mut ground = self.ground(&mapper, scope)?;
        if from == Wakefulness::Awake {
            self.refuse_held(&ground)?;
        }
        let wanted = |slot: &Slot| match from {
            Wakefulness::Awake => slot.current().is_some() && !mapper.unfilled.contains_key(&slot.at().0),
            _ => matches!(slot, Slot::Asleep { .. }) || mapper.unfilled.contains_key(&slot.at().0),
        };
        let concerned: BTreeSet<u32> =
            slots_of(&mapper, &ground).filter(|(_, slot)| wanted(slot)).map(|(heap, _)| heap).collect();
        if ground.arenas.is_empty() {
            return Ok((!concerned.is_empty()).then_some(ground));
        }
        // A block of an arena may have been suspended, or resumed, by itself.
        for arena in std::mem::take(&mut ground.arenas) {
            let was = mapper.arenas.get(arena)?.wakefulness;
            if was == from || self.heaps_of(arena).any(|heap| concerned.contains(&heap.index)) {
                ground.before.push((was, self.sleeping_bytes(&mapper, arena)));
                ground.arenas.push(arena);
            }
        }
        for &arena in &ground.arenas {
            mapper.arenas.get_mut(arena)?.wakefulness = Wakefulness::Moving;
        }
        ground.heaps.retain(|&index| {
            let inside = self.registry.heap(index).map(|heap| heap.inside.lock());
            let Some(mut inside) = inside else { return false };
            let concerned = inside.tenant.as_ref().is_some_and(|tenant| ground.arenas.contains(&tenant.key.arena));
            if concerned {
                inside.close();
            }
            concerned
        });
        Ok((!ground.arenas.is_empty()).then_some(ground))
    }

    /// Ends what `close` began: the arenas are in state `to` from now on; `None`: in the one before, but that
    /// one in which memory fell asleep and could not be put back sleeps.
    pub(crate) fn reopen(&self, ground: &Ground, to: Option<Wakefulness>) {
        let mut mapper = self.mapper.lock();
        for (&arena, &(was, asleep_bytes)) in ground.arenas.iter().zip(&ground.before) {
            let stuck = self.sleeping_bytes(&mapper, arena) > asleep_bytes;
            let now = to.unwrap_or(if stuck { Wakefulness::Asleep } else { was });
            if now == Wakefulness::Awake {
                let of_arena = |inside: &Inside| inside.tenant.as_ref().is_some_and(|tenant| tenant.key.arena == arena);
                let heaps = self.heaps_on(ground).filter(|heap| of_arena(&heap.inside.lock()));
                heaps.for_each(|heap| heap.inside.lock().reopen());
            }
            if let Ok(arena) = mapper.arenas.get_mut(arena) {
                arena.wakefulness = now;
            }
        }
        self.set_watched(&mapper);
    }

    /// How much of an arena has no memory, or has it without its content.
    pub(crate) fn sleeping_bytes(&self, mapper: &Mapper, arena: ArenaId) -> u64 {
        let unfilled = |index| mapper.unfilled.values().filter(|(heap, _)| *heap == index).count() as u64;
        self.heaps_of(arena).map(|heap| heap.asleep_bytes() + unfilled(heap.index)).sum()
    }

    /// Refuses to take memory from blocks that leases or views hold.
    pub(crate) fn refuse_held(&self, ground: &Ground) -> Result<()> {
        let held = |heap: &Heap| heap.inside.lock().held_in(ground.span.start, ground.span.end);
        let held = self.heaps_on(ground).find_map(held);
        held.map_or(Ok(()), |(address, holders)| Err(Error::Held { address, holders }))
    }

    /// Refuses an operation while a registered stream is being captured. A capture that the driver has ended
    /// without a word to the pool ends here.
    pub(crate) fn refuse_captures(&self, mapper: &mut Mapper, operation: &'static str) -> Result<()> {
        self.end_abandoned(mapper);
        mapper.captures.refuse(operation)?;
        match mapper.captured() {
            Some(clock) => Err(Error::Capturing { serial: clock.serial(), operation }),
            None => Ok(()),
        }
    }

    /// Waits for all that may use the ground, and proves under the lock that its memory may leave. Gives the
    /// devices that were waited for.
    pub(crate) fn clear(
        &self,
        ground: &Ground,
        operation: &'static str,
    ) -> Result<(MutexGuard<'_, Mapper>, Vec<DeviceId>)> {
        let users = self.users_of(&self.mapper.lock(), ground);
        self.await_all(&users)?;
        let mut mapper = self.mapper.lock();
        let users = self.users_of(&mapper, ground);
        self.quiesce(&mut mapper, &users, operation)?;
        // No lock was held while listeners were told and work was awaited.
        self.refuse_held(ground)?;
        refuse_pinned(&mapper, ground)?;
        Ok((mapper, users))
    }

    /// Waits until all work of these devices is done, with no lock held: others go on meanwhile.
    pub(crate) fn await_all(&self, users: &[DeviceId]) -> Result<()> {
        users.iter().try_for_each(|&device| Ok(synchronize(&self.origin, device)?))
    }

    /// Brings all that is known up to date with what the GPU has done, which is all: no work on the devices
    /// is under way but what other arenas' users have queued since.
    pub(crate) fn quiesce(&self, mapper: &mut Mapper, users: &[DeviceId], operation: &'static str) -> Result<()> {
        self.refuse_captures(mapper, operation)?;
        self.seal_all(mapper);
        users.iter().try_for_each(|&device| synchronize(&self.origin, device))?;
        mapper.poll_clocks();
        for heap in self.registry.heaps() {
            heap.inside.lock().reap();
        }
        mapper.retire_stale(usize::MAX)?;
        mapper.end_doubt()?;
        self.forget_freed(mapper);
        Ok(())
    }

    /// Waits until copies of an operation that has failed are done. False: nobody knows whether they are.
    pub(crate) fn await_copies(&self, devices: &[DeviceId]) -> bool {
        let waited = devices.iter().try_for_each(|&device| synchronize(&self.origin, device));
        if let Err(error) = &waited {
            tracing::warn!(%error, "a device could not be waited for");
        }
        waited.is_ok()
    }
}

/// Refuses to move memory whose handles somebody outside the pool uses.
pub(crate) fn refuse_pinned(mapper: &Mapper, ground: &Ground) -> Result<()> {
    match slots_of(mapper, ground).find(|(_, slot)| mapper.pins.touch(slot.at().0, slot.end().0)) {
        Some((_, slot)) => {
            let why = format!("the handle at {} is pinned: drop the pin first, or when a listener is told", slot.at());
            Err(Error::InUse { what: ground.title.clone(), why })
        }
        None => Ok(()),
    }
}
