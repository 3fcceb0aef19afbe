//! Things of one kind that a pool's callers hold by a handle: leases, views, buffers. Unlike what stands in
//! a table they are let go without waiting for anybody: a call that is under way keeps its own alive.

use crate::refusal::{Refusal, Result};
use crate::status::Status;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A pool's things of one kind, by handle.
pub(crate) struct Shelf<T> {
    /// What the header calls the kind.
    name: &'static str,
    /// The low bits of each handle; tables and other kinds have others.
    kind: usize,
    things: Mutex<BTreeMap<usize, Arc<T>>>,
}

/// A pool's callers hold at most so many of a kind.
const HELD_MAX: usize = 1 << 20;
const KIND_BITS: u32 = 4;

/// How many handles were ever given out, of all shelves: no two are alike.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

impl<T> Shelf<T> {
    pub(crate) const fn new(name: &'static str, kind: usize) -> Self {
        Self { name, kind, things: Mutex::new(BTreeMap::new()) }
    }

    /// Gives a thing a handle, which no other thing had or will have.
    pub(crate) fn put(&self, thing: T) -> Result<usize> {
        let mut things = self.things.lock();
        if things.len() >= HELD_MAX {
            drop(things);
            let words = format!("{HELD_MAX} of {} are held, the limit: end those not used any more", self.name);
            return Err(Refusal::new(Status::TooMany, words));
        }
        let handle = (GIVEN.fetch_add(1, Ordering::Relaxed) + 1) << KIND_BITS | self.kind;
        things.insert(handle, Arc::new(thing));
        Ok(handle)
    }

    /// What a handle names. It lives as long as the answer, also if it is taken meanwhile.
    pub(crate) fn find(&self, handle: usize) -> Result<Arc<T>> {
        let found = self.things.lock().get(&handle).cloned();
        found.ok_or_else(|| self.unknown(handle))
    }

    /// Takes a thing away from its handle. It goes with the last call that still uses it.
    pub(crate) fn take(&self, handle: usize) -> Result<Arc<T>> {
        let taken = self.things.lock().remove(&handle);
        taken.ok_or_else(|| self.unknown(handle))
    }

    /// How many there are, and what they are called.
    pub(crate) fn held(&self) -> (usize, &'static str) {
        (self.things.lock().len(), self.name)
    }

    fn unknown(&self, handle: usize) -> Refusal {
        if handle == 0 {
            return Refusal::null(self.name);
        }
        let is_one = handle & ((1 << KIND_BITS) - 1) == self.kind;
        let known = is_one && (1..=GIVEN.load(Ordering::Relaxed)).contains(&(handle >> KIND_BITS));
        let hint = if known { "it was ended already, or is another pool's" } else { "this library never gave it out" };
        Refusal::new(Status::InvalidHandle, format!("{handle:#x} is no {} of this pool: {hint}", self.name))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_handle_finds_its_own_thing_on_its_own_shelf_until_it_is_taken() {
        let (words, others) = (Shelf::new("word", 9), Shelf::new("word", 9));
        let numbers = Shelf::new("number", 10);
        let (first, second) = (words.put("first").unwrap(), words.put("second").unwrap());
        assert_eq!((*words.find(first).unwrap(), *words.find(second).unwrap()), ("first", "second"));
        let held = words.find(first).unwrap();
        assert_eq!(*words.take(first).unwrap(), "first");
        assert_eq!((*held, words.held()), ("first", (1, "word")));
        others.put("theirs").unwrap();
        numbers.put(3).unwrap();
        for refused in [words.find(first).err(), others.find(second).err(), words.take(first).err()] {
            let refusal = refused.unwrap();
            assert_eq!(refusal.status, Status::InvalidHandle);
            assert!(refusal.words.contains("another pool's"), "{}", refusal.words);
        }
        for foreign in [1, 9, usize::MAX, second + 1] {
            let refusal = words.find(foreign).unwrap_err();
            assert!(refusal.words.contains("never gave it out"), "{}", refusal.words);
        }
        assert_eq!(numbers.find(second).unwrap_err().status, Status::InvalidHandle);
        assert_eq!(words.find(0).unwrap_err().status, Status::NullPointer);
    }
}
