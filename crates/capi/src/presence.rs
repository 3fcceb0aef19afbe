//! Which threads are inside a call, so that what a handle names is let go only when nobody uses it.
//! A call pays two plain stores for it; closing pays for all.

use crate::thread_word;
use rustix::thread::{MembarrierCommand, membarrier};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

/// Proof that this thread is inside a call.
pub(crate) struct Visit {
    desk: &'static Desk,
    /// Iff no other visit of this thread is around this one.
    outermost: bool,
    /// Iff the desk is given back at the end of the visit, because the thread itself is ending.
    borrowed: bool,
    /// A visit belongs to its thread.
    _not_send: PhantomData<*const ()>,
}

/// Proof that this thread is inside a call that runs no callback, and had a desk before.
pub(crate) struct ShortVisit(&'static Desk);

/// Where one thread says that it is inside. Never freed, but given to the next thread.
#[repr(align(128))]
struct Desk {
    /// Odd iff the thread is inside a call. Only the thread itself writes it.
    steps: AtomicU64,
    /// Iff a thread has it.
    taken: AtomicBool,
    /// The desk before this one; set once, before anybody else sees this.
    next: *const Self,
}

// SAFETY: `next` points to another desk or nowhere; desks are never freed, and nothing else is a pointer.
unsafe impl Send for Desk {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for Desk {}

/// All desks there ever were, the newest first.
static DESKS: AtomicPtr<Desk> = AtomicPtr::new(std::ptr::null_mut());
/// Iff the system orders our plain stores against a closing thread, so that visits need not.
static ORDERED_BY_SYSTEM: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread's desk. Without a destructor, so that it can be read to the thread's end.
    static MINE: Cell<Option<&'static Desk>> = const { Cell::new(None) };
    /// Gives the desk back when the thread ends.
    static KEEPER: Keeper = const { Keeper };
}

struct Keeper;

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(desk) = MINE.take() {
            thread_word::set(0);
            desk.taken.store(false, Ordering::Release);
        }
    }
}

impl Visit {
    #[inline]
    pub(crate) fn enter() -> Self {
        let (desk, borrowed) = MINE.get().map_or_else(take_desk, |desk| (desk, false));
        let steps = desk.steps.load(Ordering::Relaxed);
        let outermost = steps & 1 == 0;
        if outermost {
            if ORDERED_BY_SYSTEM.load(Ordering::Relaxed) {
                // From now on short visits need not ask.
                thread_word::set(std::ptr::from_ref(desk).expose_provenance());
                desk.steps.store(steps + 1, Ordering::Relaxed);
                // What the call reads next must not be read before the store. `everybody_left` makes the
                // processor keep that order; the compiler is told here.
                compiler_fence(Ordering::SeqCst);
            } else {
                desk.steps.store(steps + 1, Ordering::SeqCst);
                fence(Ordering::SeqCst);
            }
        }
        Self { desk, outermost, borrowed, _not_send: PhantomData }
    }
}

impl Drop for Visit {
    #[inline]
    fn drop(&mut self) {
        if self.outermost {
            let steps = self.desk.steps.load(Ordering::Relaxed);
            self.desk.steps.store(steps + 1, Ordering::Release);
        }
        if self.borrowed {
            MINE.set(None);
            thread_word::set(0);
            self.desk.taken.store(false, Ordering::Release);
        }
    }
}

impl ShortVisit {
    /// `None`: the thread has no desk yet, is inside already, or must order its stores itself.
    #[inline(always)]
    pub(crate) fn enter() -> Option<Self> {
        let desk: *const Desk = std::ptr::with_exposed_provenance(thread_word::get());
        // SAFETY: the word is 0, or says where this thread's desk is; desks are never freed.
        let desk = unsafe { desk.as_ref() }?;
        let steps = desk.steps.load(Ordering::Relaxed);
        if steps & 1 == 1 {
            return None;
        }
        desk.steps.store(steps + 1, Ordering::Relaxed);
        // As in `Visit::enter`.
        compiler_fence(Ordering::SeqCst);
        Some(Self(desk))
    }
}

impl Drop for ShortVisit {
    #[inline(always)]
    fn drop(&mut self) {
        let steps = self.0.steps.load(Ordering::Relaxed);
        self.0.steps.store(steps + 1, Ordering::Release);
    }
}

/// Whether this thread is inside a call, because a callback of ours is running.
pub(crate) fn is_inside() -> bool {
    MINE.get().is_some_and(|desk| desk.steps.load(Ordering::Relaxed) & 1 == 1)
}

/// Asks the system once to order our stores. Called before there is anything that a visit could find.
pub(crate) fn prepare() {
    if !ORDERED_BY_SYSTEM.load(Ordering::Relaxed) {
        let ordered = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
        ORDERED_BY_SYSTEM.store(ordered, Ordering::SeqCst);
    }
}

/// Waits until every other thread that is inside a call has left it, for `limit` at most. What was
/// taken away before is seen by no visit after. The caller is not inside.
pub(crate) fn everybody_left(limit: Duration) -> bool {
    fence(Ordering::SeqCst);
    if ORDERED_BY_SYSTEM.load(Ordering::SeqCst) {
        // A child of a fork has to ask anew.
        let ordered = || membarrier(MembarrierCommand::PrivateExpedited);
        if ordered().is_err()
            && (membarrier(MembarrierCommand::RegisterPrivateExpedited).is_err() || ordered().is_err())
        {
            return false;
        }
    }
    let start = Instant::now();
    desks().all(|desk| {
        let steps = desk.steps.load(Ordering::Acquire);
        while steps & 1 == 1 && desk.steps.load(Ordering::Acquire) == steps {
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    })
}

/// This process is the child of a fork, so no other thread is here any more, and none inside a call.
pub(crate) fn leave_others() {
    let mine = MINE.get();
    for desk in desks().filter(|desk| mine.is_none_or(|mine| !std::ptr::eq(mine, *desk))) {
        desk.steps.store(desk.steps.load(Ordering::Relaxed).next_multiple_of(2), Ordering::Relaxed);
        desk.taken.store(false, Ordering::Release);
    }
}

/// Calls are short, or wait for a GPU: between two looks a processor is better used otherwise.
const PAUSE: Duration = Duration::from_micros(20);

fn desks() -> impl Iterator<Item = &'static Desk> {
    // SAFETY: the list's pointers are null or point to desks, which are never freed.
    let at = |desk: *const Desk| unsafe { desk.as_ref() };
    std::iter::successors(at(DESKS.load(Ordering::Acquire)), move |desk| at(desk.next))
}

/// A desk for this thread, and whether it must be given back at once.
#[cold]
fn take_desk() -> (&'static Desk, bool) {
    let free = |desk: &&Desk| {
        !desk.taken.load(Ordering::Relaxed)
            && desk.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let desk = desks().find(free).unwrap_or_else(add_desk);
    MINE.set(Some(desk));
    // A thread whose keeper has gone already is at its very end.
    let borrowed = KEEPER.try_with(|_| ()).is_err();
    (desk, borrowed)
}

fn add_desk() -> &'static Desk {
    let next = DESKS.load(Ordering::Acquire);
    let desk = Box::leak(Box::new(Desk { steps: AtomicU64::new(0), taken: AtomicBool::new(true), next }));
    // A failed exchange means that another thread has added one: at most as often as there are threads.
    while let Err(newest) = DESKS.compare_exchange_weak(desk.next.cast_mut(), desk, Ordering::AcqRel, Ordering::Acquire)
    {
        desk.next = newest;
    }
    desk
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_inside_is_waited_for_until_it_has_left_all_its_visits() {
        let (entered, has_entered) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let outer = Visit::enter();
            drop(Visit::enter());
            assert!(is_inside());
            entered.send(()).unwrap();
            may_leave.recv().unwrap();
            drop(outer);
            assert!(!is_inside());
            entered.send(()).unwrap();
            may_leave.recv().unwrap();
        });
        has_entered.recv().unwrap();
        assert!(!everybody_left(Duration::from_millis(1)));
        leave.send(()).unwrap();
        has_entered.recv().unwrap();
        assert!(everybody_left(Duration::from_secs(10)));
        leave.send(()).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn a_desk_goes_to_the_next_thread() {
        let desk_of_thread = || {
            let visit = || {
                let visit = Visit::enter();
                std::ptr::from_ref(visit.desk).addr()
            };
            std::thread::spawn(visit).join().unwrap()
        };
        // Other tests take desks too, so that it need not be the same; but they do not become more for ever.
        let used: std::collections::BTreeSet<usize> = (0..200).map(|_| desk_of_thread()).collect();
        assert!(used.len() < 100, "{} desks for 200 threads, one after the other", used.len());
    }
}
