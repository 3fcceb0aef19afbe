//! The pool of this process for PyTorch: opened when the first memory is asked for, never closed,
//! because tensors are freed until the very end of the process.

use crate::fork;
use crate::open_driver::OpenDriver;
use crate::open_pool::{OpenPool, POOLS};
use crate::refusal::{Refusal, Result};
use crate::shape::CDriverOptions;
use crate::shared_pool::stays;
use crate::status::Status;
use parking_lot::Mutex;
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use stitchpool_pool::Settings;

/// The pool's handle; 0 until it is open.
static HANDLE: AtomicUsize = AtomicUsize::new(0);
/// One opens it.
static OPENING: Mutex<()> = Mutex::new(());
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

/// The pool's handle; opens it on CUDA, over all devices, if nobody has said otherwise. A device gets a
/// context only when memory is asked for there.
#[inline]
pub(crate) fn handle() -> Result<usize> {
    match HANDLE.load(Ordering::Acquire) {
        0 => open(),
        handle => Ok(handle),
    }
}

#[cold]
fn open() -> Result<usize> {
    let _one = OPENING.lock();
    let there = HANDLE.load(Ordering::Acquire);
    if there != 0 {
        return Ok(there);
    }
    fork::prepare();
    let options = CDriverOptions { kind: CUDA, ..CDriverOptions::DEFAULT };
    let (opened, _) = OpenDriver::open(&options.understood()?)?;
    let handle = POOLS.open(OpenPool::new(opened.driver, Settings::default())?)?;
    HANDLE.store(handle, Ordering::Release);
    Ok(handle)
}

const CUDA: c_int = 1;

/// Makes an open pool the process's.
pub(crate) fn adopt(handle: usize) -> Result<()> {
    let _one = OPENING.lock();
    POOLS.with(handle, |_| Ok(()))?;
    match HANDLE.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        Err(there) if there == handle => Ok(()),
        Err(_) => {
            let words = "the process has its pool for PyTorch already: set it up before the first memory is asked for";
            Err(Refusal::new(Status::InUse, words))
        }
    }
}

/// Refuses for the process's pool.
pub(crate) fn may_go(handle: usize) -> Result<()> {
    if handle != 0 && HANDLE.load(Ordering::Acquire) == handle { Err(stays()) } else { Ok(()) }
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
