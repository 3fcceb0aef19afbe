//! Which registered stream a driver's handle value means now. The value of a destroyed stream comes
//! back for a new one, so the driver's own identity is compared each time; the last answer is kept by
//! each thread.

use crate::refusal::{Refusal, Result};
use crate::status::Status;
use parking_lot::RwLock;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use stitchpool_driver::{DeviceId, Driver, RawStream};
use stitchpool_pool::StreamId;

/// The default stream of a context: 0, and the name that means it whatever the program was built with.
const LEGACY: u64 = 1;
/// The default stream of a context and thread.
const PER_THREAD: u64 = 2;

/// What a handle value means, here and now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    /// What events are recorded on.
    stream: RawStream,
    /// Whose default stream it is; 0: everybody's.
    thread: u64,
    /// The driver's; 0 for default streams, which live as long as their context.
    identity: u64,
}

struct Known {
    id: StreamId,
    /// Where the stream goes with its thread.
    thread: Option<Weak<u64>>,
}

/// The raw streams of one pool.
pub(crate) struct RawStreams {
    /// Of the pool, and never another's.
    pool: u64,
    /// Raised when a stream goes, so that what threads keep is looked up again.
    version: AtomicU64,
    known: RwLock<BTreeMap<Key, Known>>,
}

#[derive(Clone, Copy)]
struct Last {
    pool: u64,
    version: u64,
    key: Key,
    id: StreamId,
}

thread_local! {
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
    /// A number of this thread, never given to another, that goes with it.
    static THREAD: Arc<u64> = Arc::new(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
}

static THREADS: AtomicU64 = AtomicU64::new(0);

impl Key {
    /// # Safety
    /// - `value` names a live stream of the device's primary context.
    pub(crate) unsafe fn of(driver: &dyn Driver, device: DeviceId, value: u64) -> Result<Self> {
        let legacy = RawStream { device, value: 0 };
        match value {
            0 | LEGACY => Ok(Self { stream: legacy, thread: 0, identity: 0 }),
            // No other thread can name this thread's default stream. But the legacy stream waits for it
            // and it for the legacy stream, so an event on that one is an event on both.
            PER_THREAD => Ok(Self { stream: legacy, thread: this_thread()?, identity: 0 }),
            _ => {
                let stream = RawStream { device, value };
                // SAFETY: the caller answers for the stream.
                let identity = unsafe { driver.stream_identity(stream) }?;
                Ok(Self { stream, thread: 0, identity })
            }
        }
    }
}

fn this_thread() -> Result<u64> {
    THREAD.try_with(|thread| **thread).map_err(|_| {
        let words = "this thread is ending, and its default stream with it: name another stream";
        Refusal::new(Status::NotSupported, words)
    })
}

impl RawStreams {
    pub(crate) fn new(pool: u64) -> Self {
        Self { pool, version: AtomicU64::new(0), known: RwLock::default() }
    }

    /// The stream of a key, if it was registered.
    #[inline]
    pub(crate) fn find(&self, key: Key) -> Option<StreamId> {
        let version = self.version.load(Ordering::Acquire);
        if let Some(last) = LAST.get()
            && last.key == key
            && last.pool == self.pool
            && last.version == version
        {
            return Some(last.id);
        }
        let id = self.known.read().get(&key)?.id;
        LAST.set(Some(Last { pool: self.pool, version, key, id }));
        Some(id)
    }

    /// The stream of a key; `register` makes it one.
    pub(crate) fn enter(&self, key: Key, register: impl FnOnce(RawStream) -> Result<StreamId>) -> Result<StreamId> {
        let mut known = self.known.write();
        if let Some(known) = known.get(&key) {
            return Ok(known.id);
        }
        let id = register(key.stream)?;
        // A stream that had the same value was destroyed. It cannot be retired any more: an event on the
        // value would be one of the new stream.
        let before = known.len();
        known.retain(|old, _| (old.stream, old.thread) != (key.stream, key.thread));
        if known.len() < before {
            self.version.fetch_add(1, Ordering::Release);
        }
        let thread = if key.thread == 0 { None } else { THREAD.try_with(Arc::downgrade).ok() };
        known.insert(key, Known { id, thread });
        Ok(id)
    }

    /// Takes out the default streams of threads that have ended.
    pub(crate) fn take_orphans(&self) -> Vec<StreamId> {
        let has_ended = |known: &Known| known.thread.as_ref().is_some_and(|thread| thread.strong_count() == 0);
        let mut known = self.known.write();
        let orphans = known.values().filter(|known| has_ended(known)).map(|known| known.id).collect();
        known.retain(|_, known| !has_ended(known));
        orphans
    }

    /// The stream is retired: its value means nothing until it is registered again.
    pub(crate) fn forget(&self, stream: StreamId) {
        self.known.write().retain(|_, known| known.id != stream);
        self.version.fetch_add(1, Ordering::Release);
    }
}
