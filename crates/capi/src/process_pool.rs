//! The pool of this process for PyTorch: opened when the first memory is asked for, never closed,
//! because tensors are freed until the very end of the process.

use crate::boundary::PoolHandle;
use crate::exit;
use crate::fork;
use crate::open_driver::OpenDriver;
use crate::open_pool::{OpenPool, POOLS};
use crate::pointer::handle_to;
use crate::refusal::{Refusal, Result};
use crate::shape::{Choice, DriverOptions};
use crate::status::Status;
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::c_char;
use std::io::Write;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use stitchpool_pool::{ArenaId, Settings};

/// The pool's handle; 0 until it is open.
static HANDLE: AtomicUsize = AtomicUsize::new(0);
/// How it shall be opened; none: on CUDA, over all devices. Locked by who opens it.
static PLAN: Mutex<Option<Plan>> = Mutex::new(None);
/// The words of the latest refusal, of any thread: PyTorch asks on threads of its own.
static LAST: Mutex<String> = Mutex::new(String::new());
/// How many pointers were to be freed that the pool does not know.
static UNKNOWN_FREES: AtomicU64 = AtomicU64::new(0);
/// After so many lines the rest is only counted.
const LINES_MAX: u64 = 8;

/// Throws an exception of the caller's language: function, file, line, words.
pub(crate) type Raise = unsafe extern "C-unwind" fn(*const c_char, *const c_char, u32, *const c_char);

/// A [`Raise`], or null.
static RAISE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// A driver and a pool's settings, of which nothing is opened yet: a process that forks first may still use CUDA
/// in the child.
pub(crate) struct Plan {
    pub(crate) driver: DriverOptions,
    pub(crate) settings: Settings,
}

impl Default for Plan {
    fn default() -> Self {
        // PyTorch copies between devices by kernels of either, wherever they can reach each other.
        let settings = Settings { open_to_peers: true, background_thread: true, ..Settings::default() };
        Self { driver: DriverOptions::default_of(Choice::Cuda), settings }
    }
}

/// The pool's handle; opens it if it is not there yet. A device gets a context only when memory is asked for
/// there.
#[inline]
pub(crate) fn handle() -> Result<usize> {
    match HANDLE.load(Ordering::Acquire) {
        0 => open(),
        handle => Ok(handle),
    }
}

/// The pool as C names it; null until it is open.
#[inline(always)]
pub(crate) fn opened() -> *const PoolHandle {
    handle_to::<PoolHandle>(HANDLE.load(Ordering::Acquire))
}

#[cold]
fn open() -> Result<usize> {
    let mut plan = PLAN.lock();
    let there = HANDLE.load(Ordering::Acquire);
    if there != 0 {
        return Ok(there);
    }
    fork::prepare();
    let Plan { driver, settings } = plan.get_or_insert_default();
    let (opened, _) = OpenDriver::open(driver)?;
    let handle = POOLS.open(OpenPool::new(opened, settings.clone())?)?;
    // After the driver has seen to its own end: what is said last is heard first.
    exit::prepare(end_thread);
    HANDLE.store(handle, Ordering::Release);
    Ok(handle)
}

/// The pool's own thread ends, as the driver is about to.
extern "C" fn end_thread() {
    // It is closed in the child of a fork, and then has no thread.
    let _ = POOLS.with(HANDLE.load(Ordering::Acquire), |open| {
        open.pool.end_background_thread();
        Ok(())
    });
}

/// Says how the pool shall be opened when it is first asked for.
pub(crate) fn configure(plan: Plan) -> Result<()> {
    let mut before = PLAN.lock();
    demand_none(HANDLE.load(Ordering::Acquire))?;
    *before = Some(plan);
    Ok(())
}

/// Makes an open pool the process's.
pub(crate) fn adopt(handle: usize) -> Result<()> {
    let _one = PLAN.lock();
    POOLS.with(handle, |_| Ok(()))?;
    match HANDLE.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Acquire) {
        Err(there) if there != handle => demand_none(there),
        Err(_) => Ok(()),
        Ok(_) => {
            exit::prepare(end_thread);
            Ok(())
        }
    }
}

fn demand_none(there: usize) -> Result<()> {
    if there == 0 {
        return Ok(());
    }
    let words = "the process has its pool for PyTorch already: set it up before the first memory is asked for";
    Err(Refusal::new(Status::InUse, words))
}

/// Refuses to close the process's pool.
pub(crate) fn may_go(handle: usize) -> Result<()> {
    if handle == 0 || HANDLE.load(Ordering::Acquire) != handle {
        return Ok(());
    }
    let words = "this is the pool of the process for PyTorch: it stays until the process ends";
    Err(Refusal::new(Status::InUse, words))
}

thread_local! {
    /// What this thread's requests belong to.
    static ARENA: Cell<u32> = const { Cell::new(0) };
}

/// Gives this thread's requests an arena, by its number in the process's pool; 0: none. The one before.
pub fn enter_arena(number: u32) -> u32 {
    ARENA.replace(number)
}

/// The arena of this thread's requests.
#[inline]
pub(crate) fn arena() -> ArenaId {
    ArenaId::of_number(ARENA.get())
}

/// Keeps a refusal's words, for whoever asks after PyTorch has made its own of it.
pub(crate) fn note(refusal: &Refusal) {
    LAST.lock().clone_from(&refusal.words);
}

/// The words of the latest refusal to PyTorch in this process; empty if there was none.
#[must_use]
pub fn last_refusal() -> String {
    LAST.lock().clone()
}

/// A pointer could not be freed: a line on stderr, and never more than that.
pub(crate) fn note_unknown_free(refusal: &Refusal) {
    let count = UNKNOWN_FREES.fetch_add(1, Ordering::Relaxed) + 1;
    let more = if count == LINES_MAX { "; further ones are only counted" } else { "" };
    if count <= LINES_MAX {
        // Where nobody reads it there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "stitchpool: a free was ignored: {}{more}", refusal.words);
    }
}

/// How many pointers PyTorch wanted freed that the pool does not know.
#[must_use]
pub fn unknown_frees() -> u64 {
    UNKNOWN_FREES.load(Ordering::Relaxed)
}

/// Says how a refusal becomes an exception; none: not at all.
pub(crate) fn raise_with(raise: Option<Raise>) {
    RAISE.store(raise.map_or(std::ptr::null_mut(), |raise| raise as *mut ()), Ordering::Release);
}

/// How a refusal becomes an exception, if it does.
pub(crate) fn raise() -> Option<Raise> {
    let raise = RAISE.load(Ordering::Acquire);
    // SAFETY: `raise_with` stored a `Raise` or null; an `Option` of a function is null iff it is none.
    unsafe { std::mem::transmute::<*mut (), Option<Raise>>(raise) }
}
