//! A pool that was opened for C, with what its callers' numbers and callbacks mean.

use crate::open_driver::OpenDriver;
use crate::raw_streams::{Key, RawStreams};
use crate::refusal::{Refusal, Result};
use crate::relay::Relay;
use crate::shelf::Shelf;
use crate::shelves::{Shelved, Shelves};
use crate::status::Status;
use crate::table::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stitchpool_driver::DeviceId;
use stitchpool_pool::{Pool, Settings, StreamId};

/// All pools that are open.
pub(crate) static POOLS: Table<OpenPool> = Table::new("pool", 2);

/// A pool and its callers' names for things.
pub(crate) struct OpenPool {
    pub(crate) pool: Pool,
    pub(crate) relay: Arc<Relay>,
    pub(crate) driver: OpenDriver,
    raw_streams: RawStreams,
    shelves: Shelves,
}

static OPENED: AtomicU64 = AtomicU64::new(0);

impl OpenPool {
    pub(crate) fn new(driver: OpenDriver, settings: Settings) -> Result<Self> {
        let pool = Pool::new(driver.driver.clone(), settings)?;
        let relay = Arc::new(Relay::default());
        let asked = relay.clone();
        pool.on_shortage(Arc::new(move |_, shortage| asked.ask(shortage)));
        let number = OPENED.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Self { pool, relay, driver, raw_streams: RawStreams::new(number), shelves: Shelves::new() })
    }

    /// What its callers hold of one kind.
    pub(crate) fn shelf<T: Shelved>(&self) -> &Shelf<T> {
        T::find(&self.shelves).0
    }

    /// Lets the pool go, and leaves what is still held standing: whoever holds it may be using the memory.
    pub(crate) fn leave(self) {
        if self.shelves.may_go().is_err() {
            std::mem::forget(self.shelves);
        }
    }

    /// The stream that a driver's handle value means now; registers it if it is new.
    ///
    /// # Safety
    /// - `value` names a live stream of the device's primary context.
    #[inline]
    pub(crate) unsafe fn raw_stream(&self, device: DeviceId, value: u64) -> Result<StreamId> {
        // SAFETY: the caller answers for the stream.
        let key = unsafe { Key::of(&*self.driver.driver, device, value) }?;
        self.raw_streams.find(key).map_or_else(|| self.enter(key), Ok)
    }

    /// The same, if it is registered already.
    ///
    /// # Safety
    /// - As for [`OpenPool::raw_stream`].
    #[inline(always)]
    pub(crate) unsafe fn known_stream(&self, device: DeviceId, value: u64) -> Option<StreamId> {
        // SAFETY: the caller answers for the stream.
        let key = unsafe { Key::of(&*self.driver.driver, device, value) }.ok()?;
        self.raw_streams.find(key)
    }

    /// Retires the stream that a driver's handle value means now.
    ///
    /// # Safety
    /// - `value` names a live stream of the device's primary context.
    pub(crate) unsafe fn retire_raw(&self, device: DeviceId, value: u64) -> Result<()> {
        // SAFETY: the caller answers for the stream.
        let key = unsafe { Key::of(&*self.driver.driver, device, value) }?;
        let stream = self.raw_streams.find(key).ok_or_else(|| {
            let words = format!("stream {value:#x} of {device} is not registered with this pool");
            Refusal::new(Status::UnknownStream, words)
        })?;
        self.retire(stream)
    }

    /// Retires a stream, whoever registered it.
    pub(crate) fn retire(&self, stream: StreamId) -> Result<()> {
        self.pool.retire(stream)?;
        self.raw_streams.forget(stream);
        Ok(())
    }

    #[cold]
    fn enter(&self, key: Key) -> Result<StreamId> {
        for orphan in self.raw_streams.take_orphans() {
            // One that cannot be retired stays registered, which costs memory and nothing else.
            let _ = self.pool.retire(orphan);
        }
        self.raw_streams.enter(key, |stream| Ok(self.pool.register(stream)?))
    }

    /// Refuses while blocks are live, or anything is held.
    pub(crate) fn may_go(&self) -> Result<()> {
        let stats = self.pool.stats();
        if stats.live_blocks == 0 {
            return self.shelves.may_go();
        }
        let live_bytes: u64 = stats.devices.iter().map(|device| device.holdings.live_bytes).sum();
        let words = format!(
            "{} blocks of {live_bytes} bytes are live: free them, or leave them standing with stitchpool_pool_destroy_leaking",
            stats.live_blocks
        );
        Err(Refusal::new(Status::InUse, words))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stitchpool_driver::host::{HostConfig, HostDriver};
    use stitchpool_driver::{Kernels, RawStream, host};
    use stitchpool_pool::Request;

    fn open(devices: usize) -> (Arc<HostDriver>, OpenPool) {
        let devices = vec![host::HostDevice::default(); devices];
        let driver = HostDriver::new(HostConfig { devices, ..HostConfig::default() }).unwrap();
        let opened = OpenDriver { driver: driver.clone(), streams: driver.clone() };
        let pool = OpenPool::new(opened, Settings::default()).unwrap();
        (driver, pool)
    }

    fn raw(pool: &OpenPool, stream: RawStream) -> Result<StreamId> {
        // SAFETY: the host driver checks that the stream lives.
        unsafe { pool.raw_stream(stream.device, stream.value) }
    }

    const fn legacy(device: u16) -> RawStream {
        RawStream { device: DeviceId(device), value: 0 }
    }

    #[test]
    fn a_handle_value_means_one_stream_until_the_driver_gives_it_to_another() {
        let (driver, pool) = open(1);
        let first = driver.create_stream(DeviceId(0)).unwrap();
        let other = driver.create_stream(DeviceId(0)).unwrap();
        let known = raw(&pool, first).unwrap();
        assert_ne!(raw(&pool, other).unwrap(), known);
        assert_eq!(raw(&pool, first).unwrap(), known);
        // SAFETY: `first` is live; it is named again only as what the driver makes of its value.
        unsafe { driver.destroy_stream(first) }.unwrap();
        assert_eq!(raw(&pool, first).unwrap_err().status, Status::InvalidArgument);
        let second = driver.create_stream(DeviceId(0)).unwrap();
        assert_eq!(second, first, "the host driver gives the value again, as CUDA does");
        assert_ne!(raw(&pool, second).unwrap(), known);
        assert_eq!(raw(&pool, second).unwrap(), raw(&pool, second).unwrap());
    }

    #[test]
    fn a_number_names_its_own_stream_in_its_own_pool_only() {
        let ((_, mine), (_, theirs)) = (open(1), open(1));
        let number = raw(&mine, legacy(0)).unwrap().number();
        raw(&theirs, legacy(0)).unwrap();
        let alloc = |open: &OpenPool, number: u64| {
            let stream = StreamId::of_number(number);
            let block = open.pool.alloc(&Request::new(512, stream)).map_err(|error| Refusal::from(error).status)?;
            // The first was a miss that has left room: the second is a hit.
            let second = open.pool.alloc_at_once(512, stream).unwrap();
            open.pool.free(block.address).unwrap();
            assert!(open.pool.free_at_once(second.address) && !open.pool.free_at_once(second.address));
            Ok(())
        };
        assert_eq!(alloc(&mine, number), Ok(()));
        for wrong in [0, number + 1, number + (1 << 32), u64::MAX] {
            assert_eq!(alloc(&mine, wrong), Err(Status::UnknownStream));
            assert!(mine.pool.alloc_at_once(512, StreamId::of_number(wrong)).is_none());
        }
        assert_eq!(alloc(&theirs, number), Err(Status::UnknownStream));
        assert!(theirs.pool.alloc_at_once(512, StreamId::of_number(number)).is_none());
        assert_ne!(number, 0);
    }

    #[test]
    fn a_retired_stream_is_registered_anew_by_every_thread() {
        let (driver, pool) = open(1);
        let stream = driver.create_stream(DeviceId(0)).unwrap();
        let before = raw(&pool, stream).unwrap();
        std::thread::scope(|scope| {
            // SAFETY: `stream` is live.
            scope.spawn(|| unsafe { pool.retire_raw(stream.device, stream.value) }.unwrap());
        });
        assert_ne!(raw(&pool, stream).unwrap(), before);
        assert_eq!(pool.retire(before).unwrap_err().status, Status::UnknownStream);
    }

    #[test]
    fn default_streams_are_told_apart_by_context_and_thread() {
        let (_, pool) = open(2);
        let value = |device, value| raw(&pool, RawStream { device: DeviceId(device), value }).unwrap();
        assert_eq!(value(0, 0), value(0, 1));
        assert_ne!(value(0, 0), value(1, 0));
        assert_ne!(value(0, 0), value(0, 2));
        assert_eq!(value(0, 2), value(0, 2));
        let mine = value(0, 2);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_ne!(value(0, 2), mine));
            scope.spawn(|| assert_eq!(value(0, 0), value(0, 1)));
        });
    }

    #[test]
    fn the_default_stream_of_a_thread_that_ended_is_retired() {
        let (driver, pool) = open(1);
        let is_registered = |stream: StreamId| {
            let block = pool.pool.alloc(&stitchpool_pool::Request::new(512, stream));
            block.map(|block| pool.pool.free(block.address).unwrap()).is_ok()
        };
        let theirs = std::thread::scope(|scope| {
            let own = || raw(&pool, RawStream { device: DeviceId(0), value: 2 }).unwrap();
            scope.spawn(own).join().unwrap()
        });
        assert!(is_registered(theirs), "nobody has asked for a new stream yet");
        raw(&pool, driver.create_stream(DeviceId(0)).unwrap()).unwrap();
        assert!(!is_registered(theirs));
    }

    #[test]
    fn a_pool_with_live_blocks_may_not_go_and_says_how_much_lives() {
        let (_, pool) = open(1);
        let stream = raw(&pool, legacy(0)).unwrap();
        let block = pool.pool.alloc(&stitchpool_pool::Request::new(1000, stream)).unwrap();
        let refusal = pool.may_go().unwrap_err();
        assert_eq!(refusal.status, Status::InUse);
        assert!(refusal.words.contains("1 blocks of 1024 bytes"), "{}", refusal.words);
        pool.pool.free(block.address).unwrap();
        pool.may_go().unwrap();
    }
}
