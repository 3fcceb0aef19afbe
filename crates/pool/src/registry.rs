//! Who is who: the heaps, the streams that use them, and which heap serves which kind of request.

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::heap::{Heap, HeapKey, Tenant};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// How many heaps a pool can have at a time.
pub(crate) const HEAPS_MAX: u32 = 4096;

/// Set in the home of a stream whose every request first asks the driver for a capture: no heap has such an
/// index, so these requests leave the path of the others by themselves.
pub(crate) const ASKED: u32 = 1 << 31;

/// 0 is no stream's.
static NEXT_SERIAL: AtomicU32 = AtomicU32::new(1);

/// So many heaps stand in the registry itself, where a hit finds them at once.
const NEAR: usize = 16;

/// Heaps by index, found without a lock; and by key, for requests that are not plain.
#[derive(Debug)]
pub(crate) struct Registry {
    near: [Heap; NEAR],
    /// The others, in stands of `NEAR` that double: as many as were ever needed are there.
    far: [OnceLock<Box<[Heap]>>; (HEAPS_MAX as usize / NEAR).ilog2() as usize],
    /// Heaps from this index on were never used.
    used: AtomicU32,
    roll: RwLock<Roll>,
}

#[derive(Debug, Default)]
struct Roll {
    /// Heaps whose tenant is not retired, by key.
    by_key: BTreeMap<HeapKey, u32>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let near = std::array::from_fn(|index| Heap::new(index as u32));
        Self { near, far: Default::default(), used: AtomicU32::new(0), roll: RwLock::default() }
    }

    #[inline(always)]
    pub(crate) fn heap(&self, index: u32) -> Option<&Heap> {
        self.near.get(index as usize).or_else(|| self.far_heap(index))
    }

    #[cold]
    #[inline(never)]
    fn far_heap(&self, index: u32) -> Option<&Heap> {
        let (stand, at) = far_place(index as usize);
        self.far.get(stand)?.get()?.get(at)
    }

    /// Every heap that was ever used.
    pub(crate) fn heaps(&self) -> impl Iterator<Item = &Heap> {
        (0..self.used.load(Ordering::Acquire)).map_while(|index| self.heap(index))
    }

    /// A number for a new stream. No other stream has it, of this pool or any other of the process.
    pub(crate) fn next_serial() -> Result<u32> {
        let next = NEXT_SERIAL.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |serial| serial.checked_add(1));
        next.map_err(|last| Error::TooMany {
            what: "streams registered in this process",
            count: u64::from(last),
            remedy: "register a stream once and keep its id",
        })
    }

    pub(crate) fn find(&self, key: &HeapKey) -> Option<u32> {
        self.roll.read().by_key.get(key).copied()
    }

    /// Gives a tenant a heap: one that is idle, else a new one; `open`: it may allocate there at once.
    pub(crate) fn house(&self, tenant: Tenant, open: bool) -> Result<u32> {
        let mut roll = self.roll.write();
        if let Some(&index) = roll.by_key.get(&tenant.key) {
            return Ok(index);
        }
        let idle = self.heaps().find(|heap| heap.inside.lock().is_vacant());
        let heap = match idle {
            Some(heap) => heap,
            None => self.build()?,
        };
        roll.by_key.insert(tenant.key.clone(), heap.index);
        let mut inside = heap.inside.lock();
        inside.move_in(tenant);
        if !open {
            inside.close();
        }
        Ok(heap.index)
    }

    /// A heap that was never used; the caller holds the roll.
    fn build(&self) -> Result<&Heap> {
        let index = self.used.load(Ordering::Relaxed);
        let too_many = || Error::TooMany {
            what: "heaps",
            count: u64::from(index),
            remedy: "retire streams that are no longer used, and free their blocks",
        };
        if index >= HEAPS_MAX {
            return Err(too_many());
        }
        let (stand, _) = far_place(index as usize);
        if let Some(stand) = self.far.get(stand).filter(|_| index as usize >= NEAR) {
            let first = 1 << index.ilog2();
            stand.get_or_init(|| (first..2 * first).map(Heap::new).collect());
        }
        let heap = self.heap(index).ok_or_else(too_many)?;
        self.used.store(index + 1, Ordering::Release);
        Ok(heap)
    }

    /// The stream asks for nothing more: its heaps become donors.
    pub(crate) fn retire(&self, clock: &Clock) {
        self.abandon(|key| key.serial == clock.serial());
    }

    /// Nobody asks for anything more in heaps of such keys: they become donors.
    pub(crate) fn abandon(&self, gone: impl Fn(&HeapKey) -> bool) {
        let mut roll = self.roll.write();
        roll.by_key.retain(|key, _| !gone(key));
        for heap in self.heaps() {
            let mut inside = heap.inside.lock();
            if inside.tenant.as_ref().is_some_and(|tenant| gone(&tenant.key)) {
                inside.retire();
            }
        }
    }

    /// Bytes of host memory that the heaps take, but for what each has made for itself.
    pub(crate) fn own_bytes(&self) -> u64 {
        let far: usize = self.far.iter().filter_map(OnceLock::get).map(|stand| size_of_val(&**stand)).sum();
        (size_of::<Self>() + far) as u64
    }

    /// The clock of a stream whose home is `home`, if it is registered and not retired.
    pub(crate) fn clock(&self, serial: u32, home: u32) -> Result<Arc<Clock>> {
        let inside = self.heap(home & !ASKED).map(|heap| heap.inside.lock());
        let inside = inside.filter(|inside| inside.belongs_to(serial));
        let tenant = inside.as_ref().and_then(|inside| inside.tenant.as_ref());
        tenant.map(|tenant| tenant.clock.clone()).ok_or(Error::UnknownStream { serial })
    }
}

/// Where a heap that is not near stands: stand `k` has those from `NEAR << k` on, as many as that number.
const fn far_place(index: usize) -> (usize, usize) {
    let stand = match (index / NEAR).checked_ilog2() {
        Some(stand) => stand as usize,
        None => 0,
    };
    (stand, index.wrapping_sub(NEAR << stand))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heap_bears_its_index_and_there_are_so_many_at_most() {
        let registry = Registry::new();
        for index in 0..HEAPS_MAX {
            assert!(registry.heaps().count() == index as usize);
            assert_eq!(registry.build().map(|heap| heap.index), Ok(index));
            assert_eq!(registry.heap(index).map(|heap| heap.index), Some(index));
        }
        assert!(registry.build().is_err());
        assert!(registry.heap(HEAPS_MAX).is_none() && registry.heap(u32::MAX).is_none());
    }
}
