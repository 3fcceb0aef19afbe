//! A pool on a host driver of exact size, and a shadow of what is live. Dropping a rig asserts that all
//! went back to the driver, and that nothing was ever misused.

use crate::shadow::Shadow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use stitchpool::chunks::Origin;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver, Ledger, Peers, Quirks, StreamMode};
use stitchpool::driver::{Address, DeviceId, Faulty, Kernels, RawStream, Rights};
use stitchpool::{DeviceStats, Error, Pool, Request, Settings, Shortage, StreamId};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
/// Granules of several drivers.
pub(crate) const CHUNKS: [u64; 3] = [4 * KIB, 64 * KIB, 2 * MIB];
/// Host memory is so many times a device's.
pub(crate) const HOST_PARTS: u64 = 4;
/// The device of most cases.
pub(crate) const HERE: DeviceId = DeviceId(0);

/// What a rig shall look like.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) devices: u16,
    pub(crate) chunk_bytes: u64,
    /// Chunks of each device.
    pub(crate) chunks: u64,
    pub(crate) peers: Peers,
    pub(crate) streams: StreamMode,
    pub(crate) quirks: Quirks,
    /// Whether uses of the same bytes without an order between them are faults.
    pub(crate) watch_order: bool,
    pub(crate) address_space_bytes: u64,
    pub(crate) settings: Settings,
}

/// A pool, its driver, and the shadow.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) host: Arc<HostDriver>,
    pub(crate) faulty: Arc<Faulty>,
    pub(crate) shape: Shape,
    pool: Option<Pool>,
    pub(crate) shadow: Shadow,
    /// Made here and not ended.
    streams: Mutex<Vec<RawStream>>,
    /// Iff the driver was made to refuse on the way back, so that something may be left at the end.
    pub(crate) scarred: bool,
    /// What another pool leaves standing at the end, on purpose.
    pub(crate) left_bytes: u64,
    /// Iff other pools have memory of the same devices.
    shared: AtomicBool,
}

/// A stream of the driver's, registered with the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) raw: RawStream,
    pub(crate) id: StreamId,
}

impl Shape {
    /// One device of exactly so many chunks, and handles of one chunk. Streams run by hand.
    pub(crate) fn exact(chunk_bytes: u64, chunks: u64) -> Self {
        let settings = Settings { handle_bytes_max: chunk_bytes, ..Settings::default() };
        Self {
            devices: 1,
            chunk_bytes,
            chunks,
            peers: Peers::All,
            streams: StreamMode::ByHand,
            quirks: Quirks::default(),
            watch_order: true,
            address_space_bytes: 126 << 40,
            settings,
        }
    }

    /// One device of so many bytes in granules of 2 MiB, and the settings of most users.
    pub(crate) fn usual(bytes: u64) -> Self {
        Self { settings: Settings::default(), ..Self::exact(2 * MIB, bytes / (2 * MIB)) }
    }

    pub(crate) fn build(self) -> Rig {
        let device = HostDevice { capacity_bytes: self.chunks * self.chunk_bytes, granularity_bytes: self.chunk_bytes };
        let config = HostConfig {
            devices: vec![device; usize::from(self.devices)],
            host_memory: HostDevice { capacity_bytes: HOST_PARTS * device.capacity_bytes, ..device },
            peers: self.peers.clone(),
            address_space_bytes: self.address_space_bytes,
            streams: self.streams,
            watch_order: self.watch_order,
            quirks: self.quirks,
            ..HostConfig::default()
        };
        let host = HostDriver::new(config).unwrap();
        let faulty = Faulty::new(host.clone());
        let pool = Pool::new(faulty.clone(), self.settings.clone()).unwrap();
        Rig {
            host,
            faulty,
            shape: self,
            pool: Some(pool),
            shadow: Shadow::default(),
            streams: Mutex::default(),
            scarred: false,
            left_bytes: 0,
            shared: AtomicBool::new(false),
        }
    }
}

impl Rig {
    pub(crate) fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap()
    }

    /// Asks to be told of shortages, with the pool at hand.
    pub(crate) fn on_shortage(&self, relief: impl Fn(&Pool) -> bool + Send + Sync + 'static) {
        self.pool().on_shortage(Arc::new(move |pool, _| relief(pool)));
    }

    /// A second pool on the same devices.
    pub(crate) fn another_pool(&self) -> Pool {
        self.shared.store(true, Ordering::Relaxed);
        Pool::new(self.faulty.clone(), self.shape.settings.clone()).unwrap()
    }

    /// For ranges without a pool.
    pub(crate) fn origin(&self) -> Arc<Origin> {
        Origin::new(self.faulty.clone())
    }

    /// A new stream of the first device.
    pub(crate) fn stream(&self) -> Stream {
        self.stream_on(HERE)
    }

    pub(crate) fn stream_on(&self, device: DeviceId) -> Stream {
        let raw = self.host.create_stream(device).unwrap();
        self.streams.lock().unwrap().push(raw);
        Stream { raw, id: self.pool().register(raw).unwrap() }
    }

    /// Retires a stream and destroys it; what is queued on it still runs.
    pub(crate) fn end_stream(&self, stream: Stream) {
        self.pool().retire(stream.id).unwrap();
        self.destroy_unretired(stream);
    }

    /// Destroys a stream behind the pool's back.
    pub(crate) fn destroy_unretired(&self, stream: Stream) {
        self.streams.lock().unwrap().retain(|&raw| raw != stream.raw);
        // SAFETY: the stream was made by `stream_on` and is destroyed once.
        unsafe { self.host.destroy_stream(stream.raw) }.unwrap();
    }

    /// Allocates, enters it in the shadow, and after a refusal proves that nothing has changed.
    pub(crate) fn alloc(&self, stream: Stream, bytes: u64) -> Result<Address, Error> {
        self.ask(&Request::new(bytes, stream.id))
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<Address, Error> {
        match self.pool().alloc(request) {
            Ok(block) => {
                self.shadow.enter(block, request);
                Ok(block.address)
            }
            Err(error) => {
                self.assert_sound();
                Err(error)
            }
        }
    }

    /// What `alloc` says where it must succeed.
    #[track_caller]
    pub(crate) fn take(&self, stream: Stream, bytes: u64) -> Address {
        self.alloc(stream, bytes).unwrap_or_else(|error| panic!("{bytes} bytes were refused: {error}"))
    }

    /// What `alloc` says where memory must be short.
    #[track_caller]
    pub(crate) fn shortage(&self, stream: Stream, bytes: u64) -> Shortage {
        shortage(self.alloc(stream, bytes))
    }

    #[track_caller]
    pub(crate) fn free(&self, address: Address) {
        self.shadow.leave(address);
        self.pool().free(address).unwrap();
    }

    pub(crate) fn free_all(&self) {
        self.shadow.addresses().into_iter().for_each(|address| self.free(address));
    }

    /// Queues work of unknown length.
    pub(crate) fn busy(&self, stream: Stream) {
        // SAFETY: streams live until `end_stream`.
        unsafe { self.host.delay(stream.raw, 1000) }.unwrap();
    }

    /// Lets a stream do what is queued on it, up to a wait for a stream that is not so far.
    pub(crate) fn done(&self, stream: Stream) {
        self.host.run(stream.raw).unwrap();
    }

    /// Queues a write of a pattern over `[at, +bytes)`, rounded down to whole patterns.
    pub(crate) fn fill(&self, stream: Stream, at: Address, bytes: u64, seed: u64) {
        // SAFETY: tests fill live blocks and mapped ranges; the driver's ledger makes a fault of all else.
        unsafe { self.host.fill(stream.raw, at, bytes & !15, seed) }.unwrap();
    }

    /// Queues the check of it.
    pub(crate) fn verify(&self, stream: Stream, at: Address, bytes: u64, seed: u64) {
        // SAFETY: as for `fill`.
        unsafe { self.host.verify(stream.raw, at, bytes & !15, seed) }.unwrap();
    }

    /// Queues a look at whether the stream's device may write all of `[at, +bytes)`.
    pub(crate) fn touch(&self, stream: RawStream, at: Address, bytes: u64) {
        self.host.touch(stream, at, bytes, Rights::ReadWrite).unwrap();
    }

    /// Writes a few bytes at both ends of `[at, +bytes)` and at every granule between, at once.
    pub(crate) fn mark(&self, at: Address, bytes: u64, byte: u8) {
        self.marks(at, bytes).for_each(|at| self.host.poke(at, &[byte; MARK_BYTES]).unwrap());
    }

    /// Whether what `mark` wrote is still there.
    pub(crate) fn is_marked(&self, at: Address, bytes: u64, byte: u8) -> bool {
        self.marks(at, bytes).all(|at| {
            let mut read = [0; MARK_BYTES];
            self.host.peek(at, &mut read).unwrap();
            read == [byte; MARK_BYTES]
        })
    }

    fn marks(&self, at: Address, bytes: u64) -> impl Iterator<Item = Address> + use<> {
        let step = usize::try_from(self.shape.chunk_bytes).unwrap();
        let last = bytes - MARK_BYTES as u64;
        (0..last).step_by(step).chain([last]).map(move |offset| at + offset)
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.host.ledger()
    }

    pub(crate) fn physical_bytes(&self) -> u64 {
        self.ledger().physical_bytes.values().sum()
    }

    /// The pool's figures of the first device.
    pub(crate) fn figures(&self) -> DeviceStats {
        self.pool().stats().devices[0]
    }

    /// Proves the pool's invariants, that its figures are the shadow's and the driver's, and that it
    /// never tried what a driver must refuse. No other thread uses the pool meanwhile.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        self.pool().check().unwrap();
        let (stats, ledger) = (self.pool().stats(), self.ledger());
        assert_eq!(stats.live_blocks, self.shadow.count(), "live blocks");
        let live_bytes: u64 = stats.devices.iter().map(|device| device.holdings.live_bytes).sum();
        let asleep_bytes: u64 = stats.devices.iter().map(|device| device.holdings.suspended_bytes).sum();
        let shadow_bytes = self.shadow.bytes();
        assert!(live_bytes <= shadow_bytes && shadow_bytes <= live_bytes + asleep_bytes, "live bytes");
        for DeviceStats { holdings, physical_peak_bytes, .. } in stats.devices {
            let held_bytes = ledger.physical_bytes_on(holdings.device);
            if stats.quarantined == 0 && !self.shared.load(Ordering::Relaxed) {
                assert_eq!(holdings.physical_bytes, held_bytes, "physical bytes of {}", holdings.device);
            }
            assert!(holdings.live_bytes <= holdings.physical_bytes && held_bytes <= holdings.limit_bytes);
            assert!(holdings.physical_bytes <= physical_peak_bytes);
        }
        assert_eq!(ledger.refusals, 0, "{:?}", ledger.last_refusal);
    }

    /// Waits for all streams and proves that no work met a fault or wrong bytes.
    #[track_caller]
    pub(crate) fn assert_right(&self) {
        self.host.run_all();
        for &stream in &*self.streams.lock().unwrap() {
            // SAFETY: it was made by `stream_on` and not ended.
            unsafe { self.host.finish_stream(stream) }.unwrap();
        }
        let tally = self.host.tally().unwrap();
        assert_eq!((tally.faults, tally.wrong_bytes), (Vec::new(), 0));
    }
}

/// The shortage that a request ended in.
#[track_caller]
pub(crate) fn shortage<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Shortage {
    match outcome {
        Err(Error::OutOfMemory(shortage)) => *shortage,
        other => panic!("memory must be short, and not {other:?}"),
    }
}

const MARK_BYTES: usize = 16;

impl Drop for Rig {
    /// The end of every case: what is still live is freed, and nothing may be left or wrong.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.faulty.clear();
        self.assert_sound();
        self.free_all();
        self.assert_right();
        let lost_bytes: u64 = self.pool().stats().devices.iter().map(|device| device.holdings.quarantined_bytes).sum();
        drop(self.pool.take());
        let ledger = self.ledger();
        assert_eq!(ledger.refusals, 0, "{:?}", ledger.last_refusal);
        if self.scarred || self.left_bytes > 0 {
            // The host is none of the pool's devices: of what is lost there the pool has no figure.
            let on_devices = ledger.physical_bytes.iter().filter(|(device, _)| !device.is_host());
            let (left_bytes, may_bytes): (u64, _) =
                (on_devices.map(|(_, bytes)| bytes).sum(), lost_bytes + self.left_bytes);
            assert!(left_bytes <= may_bytes, "{left_bytes} bytes are left, {may_bytes} may be");
        } else {
            assert!(ledger.is_empty(), "left behind: {ledger:?}");
        }
        assert_eq!(self.host.tally().unwrap().faults, Vec::<String>::new(), "faults of the way down");
    }
}
