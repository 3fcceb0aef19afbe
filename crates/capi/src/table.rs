//! What handles name. A handle is a number in a pointer's clothes: which table, which slot, and which
//! of the things that stood there one after the other. It is compared and never followed.

use crate::presence::{self, ShortVisit, Visit};
use crate::refusal::{Refusal, Result};
use crate::status::Status;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// At most so many things of a kind at a time.
pub(crate) const SLOTS: usize = 1024;

/// Open things of one kind.
pub(crate) struct Table<T: 'static> {
    /// What the header calls the kind.
    name: &'static str,
    /// Tells the tables apart: 1 to 14.
    kind: usize,
    /// How many were ever opened.
    opened: AtomicUsize,
    /// How many of them the process opened that this one was forked from.
    inherited: AtomicUsize,
    /// One opens at a time. Closing takes no lock: it waits for calls, and a call may open.
    opening: Mutex<()>,
    slots: [Slot<T>; SLOTS],
}

struct Slot<T> {
    /// The handle that names the thing; that handle's `closing` while a thread is about to close it; 0 iff
    /// the slot is vacant.
    handle: AtomicUsize,
    /// Null iff another may be opened here. Valid for a visit that found its handle in `handle`.
    thing: AtomicPtr<T>,
}

const KIND_BITS: u32 = 4;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();
/// How long closing waits for calls that are under way: longer than any setting of `wait_max_us` that makes sense.
const LEAVING_MAX: Duration = Duration::from_secs(60);
/// Between two looks at a handle that is being closed.
const PAUSE: Duration = Duration::from_micros(20);

impl<T: Send + Sync + 'static> Table<T> {
    pub(crate) const fn new(name: &'static str, kind: usize) -> Self {
        Self {
            name,
            kind,
            opened: AtomicUsize::new(0),
            inherited: AtomicUsize::new(0),
            opening: Mutex::new(()),
            slots: [const { Slot::<T>::VACANT }; SLOTS],
        }
    }

    /// Gives a thing a handle, which no other thing had or will have.
    pub(crate) fn open(&self, thing: T) -> Result<usize> {
        presence::prepare();
        let _one_at_a_time = self.opening.lock();
        let vacant = self.slots.iter().position(|slot| slot.thing.load(Ordering::Acquire).is_null());
        let index = vacant.ok_or_else(|| {
            let words = format!("{SLOTS} of {} are open, the limit: close those not used any more", self.name);
            Refusal::new(Status::TooMany, words)
        })?;
        let age = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let handle = age << (SLOT_BITS + KIND_BITS) | index << KIND_BITS | self.kind;
        self.slots[index].thing.store(Box::into_raw(Box::new(thing)), Ordering::Release);
        self.slots[index].handle.store(handle, Ordering::Release);
        Ok(handle)
    }

    /// Does something with what a handle names. While another thread is about to close it, this waits for
    /// the outcome.
    #[inline]
    pub(crate) fn with<R>(&self, handle: usize, body: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        // Again only after a closing was called off.
        loop {
            let visit = Visit::enter();
            if let Some(thing) = self.find(handle, &visit) {
                return body(thing);
            }
            drop(visit);
            self.await_reopening(handle)?;
        }
    }

    /// Does something short with what a handle names. False: it is not open, or this is no time for
    /// something short, or `body` says so; [`Table::with`] finds out which.
    #[inline(always)]
    pub(crate) fn with_at_once(&self, handle: usize, body: impl FnOnce(&T) -> bool) -> bool {
        ShortVisit::enter().is_some_and(|visit| self.find(handle, &visit).is_some_and(body))
    }

    /// `_visit` is the proof that the thread is inside.
    #[inline(always)]
    fn find<'a, V: Presence>(&self, handle: usize, _visit: &'a V) -> Option<&'a T> {
        let slot = self.slot(handle);
        if handle == 0 || slot.handle.load(Ordering::Acquire) != handle {
            return None;
        }
        // SAFETY: the slot names the handle during the visit. `close` takes the name away first, and lets
        // the thing go only after all visits that may have seen the name.
        Some(unsafe { &*slot.thing.load(Ordering::Acquire) })
    }

    /// Takes the thing out, unless `may_go` objects or a call is under way for too long; then it stays open.
    pub(crate) fn close(&self, handle: usize, may_go: impl FnOnce(&T) -> Result<()>) -> Result<T> {
        if presence::is_inside() {
            let words = format!("a {} cannot be closed from inside a callback", self.name);
            return Err(Refusal::new(Status::Busy, words));
        }
        let slot = self.slot(handle);
        // Of several that close it, one takes the name away.
        while !self.is_one(handle)
            || slot.handle.compare_exchange(handle, closing(handle), Ordering::SeqCst, Ordering::Relaxed).is_err()
        {
            self.await_reopening(handle)?;
        }
        let thing = slot.thing.load(Ordering::Acquire);
        let left = if presence::everybody_left(LEAVING_MAX) {
            // SAFETY: only who took the name away may let the thing go, so it lives.
            may_go(unsafe { &*thing })
        } else {
            let words = format!("calls are under way for {} s: let them end first", LEAVING_MAX.as_secs());
            Err(Refusal::new(Status::Busy, words))
        };
        if let Err(refusal) = left {
            slot.handle.store(handle, Ordering::Release);
            return Err(refusal);
        }
        slot.handle.store(0, Ordering::Release);
        slot.thing.store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: `open` made it with a box; nobody can find it any more, and all who had have left.
        Ok(*unsafe { Box::from_raw(thing) })
    }

    /// Takes all names away, in the child of a fork: what they name is the parent's. The things stay where
    /// they are, because letting one go would call the parent's driver.
    pub(crate) fn disown(&self) {
        self.inherited.store(self.opened.load(Ordering::Relaxed), Ordering::Relaxed);
        for slot in &self.slots {
            slot.handle.store(0, Ordering::Release);
        }
    }

    /// Whether the number could be a handle of this kind; 0 and what stands for 0 are none.
    const fn is_one(&self, handle: usize) -> bool {
        handle & ((1 << KIND_BITS) - 1) == self.kind
    }

    #[inline]
    fn slot(&self, handle: usize) -> &Slot<T> {
        &self.slots[handle >> KIND_BITS & (SLOTS - 1)]
    }

    /// Ends well if the handle is open again after another thread was about to close it.
    #[cold]
    fn await_reopening(&self, handle: usize) -> Result<()> {
        let (slot, start) = (self.slot(handle), Instant::now());
        while self.is_one(handle) && slot.handle.load(Ordering::Acquire) == closing(handle) {
            // Who closes it may be waiting for this thread's outer call.
            if presence::is_inside() || start.elapsed() > 2 * LEAVING_MAX {
                let words = format!("the {} is being closed by another thread", self.name);
                return Err(Refusal::new(Status::Busy, words));
            }
            std::thread::sleep(PAUSE);
        }
        if self.is_one(handle) && slot.handle.load(Ordering::Acquire) == handle {
            Ok(())
        } else {
            Err(self.unknown(handle))
        }
    }

    #[cold]
    fn unknown(&self, handle: usize) -> Refusal {
        let name = self.name;
        if handle == 0 {
            return Refusal::null(name);
        }
        let age = handle >> (SLOT_BITS + KIND_BITS);
        let hint = if self.is_one(handle) && (1..=self.inherited.load(Ordering::Relaxed)).contains(&age) {
            "it belongs to the process that this one was forked from; open one here"
        } else if self.is_one(handle) && (1..=self.opened.load(Ordering::Relaxed)).contains(&age) {
            "it was closed already"
        } else {
            "this library never gave it out as one"
        };
        Refusal::new(Status::InvalidHandle, format!("{handle:#x} is not an open {name}: {hint}"))
    }
}

/// What proves that the thread is inside a call for as long as it lives.
trait Presence {}

impl Presence for Visit {}

impl Presence for ShortVisit {}

/// What stands for a handle that may be gone in a moment. It is no handle of the same slot.
const fn closing(handle: usize) -> usize {
    !handle
}

impl<T> Slot<T> {
    #[expect(clippy::declare_interior_mutable_const, reason = "it is what each slot begins as")]
    const VACANT: Self = Self { handle: AtomicUsize::new(0), thing: AtomicPtr::new(std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::AtomicBool;

    static WORDS: Table<String> = Table::new("word", 3);

    fn word(handle: usize) -> Result<String> {
        WORDS.with(handle, |word| Ok(word.clone()))
    }

    #[test]
    fn a_handle_names_its_own_thing_and_nothing_after_it() {
        let first = WORDS.open("first".into()).unwrap();
        let inside = WORDS.with(first, |_| WORDS.close(first, |_| Ok(()))).unwrap_err();
        assert_eq!(inside.status, Status::Busy);
        assert_eq!(word(first).unwrap(), "first");
        assert_eq!(WORDS.close(first, |_| Ok(())).unwrap(), "first");
        let second = WORDS.open("second".into()).unwrap();
        for wrong in [first, second ^ 1, closing(second), second + (1 << 20), usize::MAX] {
            assert_eq!(word(wrong).unwrap_err().status, Status::InvalidHandle, "{wrong:#x}");
            assert_eq!(WORDS.close(wrong, |_| Ok(())).unwrap_err().status, Status::InvalidHandle, "{wrong:#x}");
        }
        assert_eq!(word(0).unwrap_err().status, Status::NullPointer);
        assert_eq!(WORDS.close(0, |_| Ok(())).unwrap_err().status, Status::NullPointer);
        assert_eq!(WORDS.close(second, |_| Ok(())).unwrap(), "second");
    }

    #[test]
    fn whoever_comes_while_a_thing_is_being_closed_waits_for_the_outcome() {
        let handle = WORDS.open("stays".into()).unwrap();
        std::thread::scope(|scope| {
            let refusal = WORDS.close(handle, |_| {
                let visitor = scope.spawn(|| word(handle));
                let nested = scope.spawn(|| WORDS.with(other(), |_| word(handle)));
                assert_eq!(nested.join().unwrap().unwrap_err().status, Status::Busy);
                assert!(!visitor.is_finished());
                Err(Refusal::new(Status::InUse, "no"))
            });
            assert_eq!(refusal.unwrap_err().status, Status::InUse);
        });
        assert_eq!(WORDS.close(handle, |_| Ok(())).unwrap(), "stays");
    }

    fn other() -> usize {
        WORDS.open("other".into()).unwrap()
    }

    /// Says when it is gone, so that a visitor can tell that he has looked at the dead.
    struct Mortal(AtomicBool);

    impl Drop for Mortal {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    static MORTALS: Table<Mortal> = Table::new("mortal", 4);

    #[test]
    fn nobody_inside_sees_a_thing_go() {
        let handles: Vec<usize> = (0..200).map(|_| MORTALS.open(Mortal(AtomicBool::new(false))).unwrap()).collect();
        let is_dead = |handle| MORTALS.with(handle, |mortal| Ok(mortal.0.load(Ordering::SeqCst)));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for handle in &handles {
                        while let Ok(dead) = is_dead(*handle) {
                            assert!(!dead);
                        }
                    }
                });
            }
            scope.spawn(|| handles.iter().for_each(|handle| drop(MORTALS.close(*handle, |_| Ok(())).unwrap())));
        });
    }

    static HEIRLOOMS: Table<String> = Table::new("heirloom", 5);

    #[test]
    fn a_child_finds_its_parents_handles_closed_and_has_its_own() {
        let theirs = HEIRLOOMS.open("theirs".into()).unwrap();
        HEIRLOOMS.disown();
        let refusals = [HEIRLOOMS.with(theirs, |_| Ok(())), HEIRLOOMS.close(theirs, |_| Ok(())).map(drop)];
        for refusal in refusals.map(Result::unwrap_err) {
            assert_eq!(refusal.status, Status::InvalidHandle);
            assert!(refusal.words.contains("forked from"), "{}", refusal.words);
        }
        let own = HEIRLOOMS.open("own".into()).unwrap();
        assert_eq!(HEIRLOOMS.with(own, |heirloom| Ok(heirloom.clone())).unwrap(), "own");
        assert_eq!(HEIRLOOMS.close(own, |_| Ok(())).unwrap(), "own");
        let closed = HEIRLOOMS.with(own, |_| Ok(())).unwrap_err();
        assert!(closed.words.contains("closed already"), "{}", closed.words);
    }
}
