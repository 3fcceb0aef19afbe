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

/// Heaps by index, found without a lock; and by key, for requests that are not plain.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The first `roll.used` are there.
    heaps: Box<[OnceLock<Box<Heap>>]>,
    roll: RwLock<Roll>,
}

#[derive(Debug, Default)]
struct Roll {
    used: u32,
    /// Heaps whose tenant is not retired, by key.
    by_key: BTreeMap<HeapKey, u32>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let heaps = (0..HEAPS_MAX).map(|_| OnceLock::new()).collect();
        Self { heaps, roll: RwLock::default() }
    }

    #[inline]
    pub(crate) fn heap(&self, index: u32) -> Option<&Heap> {
        self.heaps.get(index as usize)?.get().map(|heap| &**heap)
    }

    /// Every heap there is.
    pub(crate) fn heaps(&self) -> impl Iterator<Item = &Heap> {
        self.heaps.iter().map_while(|place| place.get().map(|heap| &**heap))
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
        let idle = self.heaps().find(|heap| heap.core.lock().is_vacant());
        let heap = match idle {
            Some(heap) => heap,
            None => self.build(&mut roll)?,
        };
        roll.by_key.insert(tenant.key.clone(), heap.index);
        let mut core = heap.core.lock();
        core.move_in(tenant);
        if !open {
            core.close();
        }
        Ok(heap.index)
    }

    fn build(&self, roll: &mut Roll) -> Result<&Heap> {
        let too_many = Error::TooMany {
            what: "heaps",
            count: u64::from(roll.used),
            remedy: "retire streams that are no longer used, and free their blocks",
        };
        let place = self.heaps.get(roll.used as usize).ok_or(too_many)?;
        let heap = place.get_or_init(|| Box::new(Heap::new(roll.used)));
        roll.used += 1;
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
            let mut core = heap.core.lock();
            if core.tenant.as_ref().is_some_and(|tenant| gone(&tenant.key)) {
                core.retire();
            }
        }
    }

    /// Bytes of host memory that the table of heaps takes, and what stands in every heap.
    pub(crate) fn own_bytes(&self) -> u64 {
        (size_of_val(&*self.heaps) + self.heaps().count() * size_of::<Heap>()) as u64
    }

    /// The clock of a stream whose home is `home`, if it is registered and not retired.
    pub(crate) fn clock(&self, serial: u32, home: u32) -> Result<Arc<Clock>> {
        let core = self.heap(home & !ASKED).map(|heap| heap.core.lock());
        let core = core.filter(|core| core.belongs_to(serial));
        let tenant = core.as_ref().and_then(|core| core.tenant.as_ref());
        tenant.map(|tenant| tenant.clock.clone()).ok_or(Error::UnknownStream { serial })
    }
}
