//! A pool of the C interface for callers in Rust that share it with C: one pool, whoever names it.

use crate::fork;
use crate::open_driver::OpenDriver;
use crate::open_pool::{OpenPool, POOLS};
use crate::process_pool;
use crate::refusal::Result;
use crate::shape::device_of;
use crate::shelves::Shelved;
use stitchpool_pool::{Pool, Settings, StreamId};

/// A pool by its handle. It may be closed at any time; every call says so then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedPool {
    handle: usize,
}

impl SharedPool {
    /// Makes a pool.
    ///
    /// # Errors
    /// The pool's, when the settings cannot be or the driver refuses; or too many are open.
    pub fn open(driver: OpenDriver, settings: Settings) -> Result<Self> {
        fork::prepare();
        Ok(Self { handle: POOLS.open(OpenPool::new(driver, settings)?)? })
    }

    /// The pool of this process for PyTorch, opened as it was configured if it is not there yet.
    ///
    /// # Errors
    /// As [`SharedPool::open`], and the driver's where it does not open.
    pub fn of_process() -> Result<Self> {
        Ok(Self { handle: process_pool::handle()? })
    }

    /// Makes this the pool of this process for PyTorch, to the end of the process.
    ///
    /// # Errors
    /// There is one already.
    pub fn adopt(self) -> Result<()> {
        process_pool::adopt(self.handle)
    }

    /// The driver that it is on.
    ///
    /// # Errors
    /// As [`SharedPool::with`].
    pub fn driver(self) -> Result<OpenDriver> {
        POOLS.with(self.handle, |open| Ok(open.driver.clone()))
    }

    pub(crate) const fn of(handle: usize) -> Self {
        Self { handle }
    }

    /// What C calls it: a `stitchpool_pool *`.
    #[must_use]
    pub const fn handle(self) -> usize {
        self.handle
    }

    /// Does something with the pool, which stays open meanwhile.
    ///
    /// # Errors
    /// It was closed, or belongs to the process that this one was forked from.
    pub fn with<R>(self, body: impl FnOnce(&Pool) -> R) -> Result<R> {
        POOLS.with(self.handle, |open| Ok(body(&open.pool)))
    }

    /// The stream that a driver's handle value means now; registers it if it is new.
    ///
    /// # Errors
    /// As [`SharedPool::with`], the driver's, or the pool's when it is new.
    ///
    /// # Safety
    /// - `value` names a live stream of the device's primary context.
    pub unsafe fn stream(self, device: i32, value: u64) -> Result<StreamId> {
        // SAFETY: the caller answers for the stream.
        POOLS.with(self.handle, |open| unsafe { open.raw_stream(device_of(device)?, value) })
    }

    /// Nothing more will be queued on the stream.
    ///
    /// # Errors
    /// As [`SharedPool::with`]; the stream is not registered; or the driver's.
    ///
    /// # Safety
    /// - As for [`SharedPool::stream`].
    pub unsafe fn retire(self, device: i32, value: u64) -> Result<()> {
        // SAFETY: the caller answers for the stream.
        POOLS.with(self.handle, |open| unsafe { open.retire_raw(device_of(device)?, value) })
    }

    /// Holds a thing of the pool's by a handle. While any is held the pool is not closed.
    ///
    /// # Errors
    /// As [`SharedPool::with`], or too many are held; the thing is gone then.
    pub fn hold<T: Shelved>(self, thing: T) -> Result<usize> {
        POOLS.with(self.handle, |open| open.shelf().put(thing))
    }

    /// Does something with a thing that is held.
    ///
    /// # Errors
    /// As [`SharedPool::with`], or the handle names nothing of that kind any more.
    pub fn with_held<T: Shelved, R>(self, handle: usize, body: impl FnOnce(&Pool, &T) -> R) -> Result<R> {
        POOLS.with(self.handle, |open| Ok(body(&open.pool, &*open.shelf::<T>().find(handle)?)))
    }

    /// How many things of a kind are held.
    ///
    /// # Errors
    /// As [`SharedPool::with`].
    pub fn held<T: Shelved>(self) -> Result<usize> {
        POOLS.with(self.handle, |open| Ok(open.shelf::<T>().held().0))
    }

    /// Holds it no longer.
    ///
    /// # Errors
    /// As [`SharedPool::with_held`].
    pub fn let_go<T: Shelved>(self, handle: usize) -> Result<()> {
        POOLS.with(self.handle, |open| open.shelf::<T>().take(handle).map(drop))
    }

    /// Closes it after its streams have done what is queued, and gives everything back.
    ///
    /// # Errors
    /// Blocks are live, a stream does not finish, or a call is under way; the pool is as before then.
    pub fn close(self) -> Result<()> {
        process_pool::may_go(self.handle)?;
        POOLS.with(self.handle, |open| {
            open.may_go()?;
            // All is given back while a refusal can still be told and the pool still be used.
            open.pool.trim_and_wait()?;
            Ok(())
        })?;
        POOLS.close(self.handle, OpenPool::may_go).map(drop)
    }

    /// Closes it whatever is live. Memory that may be in use is left standing.
    ///
    /// # Errors
    /// A call is under way.
    pub fn leave(self) -> Result<()> {
        process_pool::may_go(self.handle)?;
        POOLS.close(self.handle, |_| Ok(())).map(OpenPool::leave)
    }
}
