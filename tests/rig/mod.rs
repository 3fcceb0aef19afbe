//! What the pool's tests share: host devices moved by hand, chosen faults before them, and a pool on
//! top. It checks nothing by itself.
// Each test program uses its own part of it.
#![allow(dead_code)]

pub mod fault;
pub mod interjecting;
pub mod size;

use proptest::test_runner::Config;
use std::sync::Arc;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver, StreamMode};
use stitchpool::driver::{Address, DeviceId, Driver, Faulty, Kernels, RawEvent, RawStream};
use stitchpool::{Pool, Settings, StreamId};

/// The granule of all tests that do not say otherwise.
pub const GRANULE: u64 = 64 << 10;

/// What the devices of a test look like; all have the same memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub devices: u16,
    /// The granule of the first device; the others have `granule_bytes`, and none is coarser.
    pub first_granule_bytes: u64,
    pub granule_bytes: u64,
    /// Capacity of each device, in granules of `granule_bytes`.
    pub granules: u64,
}

impl Shape {
    /// So many devices of so many granules.
    pub const fn new(devices: u16, granules: u64) -> Self {
        Self { devices, first_granule_bytes: GRANULE, granule_bytes: GRANULE, granules }
    }

    /// A strict driver whose streams stand until they are moved, and which watches the order of work.
    pub fn host(self) -> Arc<HostDriver> {
        let capacity_bytes = self.granules * self.granule_bytes;
        let device = |granularity_bytes| HostDevice { capacity_bytes, granularity_bytes };
        let others = (1..self.devices).map(|_| device(self.granule_bytes));
        let config = HostConfig {
            devices: std::iter::once(device(self.first_granule_bytes)).chain(others).collect(),
            streams: StreamMode::ByHand,
            watch_order: true,
            ..HostConfig::default()
        };
        HostDriver::new(config).unwrap()
    }
}

/// A pool over faulty host devices.
pub struct Rig {
    pub host: Arc<HostDriver>,
    pub faulty: Arc<Faulty>,
    pub pool: Pool,
}

/// A stream as the driver and as the pool name it.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub raw: RawStream,
    pub id: StreamId,
}

impl Rig {
    pub fn new(shape: Shape, settings: Settings) -> Self {
        let host = shape.host();
        let faulty = Faulty::new(host.clone());
        let pool = Pool::new(faulty.clone(), settings).unwrap();
        Self { host, faulty, pool }
    }

    /// A new stream of a device.
    pub fn stream(&self, device: u16) -> Stream {
        let raw = self.host.new_stream(device);
        Stream { raw, id: self.pool.register(raw).unwrap() }
    }
}

/// Settings under which every handle is one granule, so that nothing but granules can be short.
pub fn granule_handles(granule_bytes: u64) -> Settings {
    Settings { handle_bytes_max: granule_bytes, ..Settings::default() }
}

/// Work of an application on a driver's streams.
pub trait Application {
    fn fill(&self, on: RawStream, at: Address, bytes: u64, seed: u64);
    fn verify(&self, on: RawStream, at: Address, bytes: u64, seed: u64);
    /// What is queued on `later` from now on comes after what is queued on `earlier` so far.
    fn order(&self, later: RawStream, earlier: RawStream);
    fn order_after(&self, later: RawStream, event: RawEvent);
    fn mark(&self, on: RawStream) -> RawEvent;
    fn forget_mark(&self, event: RawEvent);
    fn new_stream(&self, device: u16) -> RawStream;
    fn destroy(&self, stream: RawStream);
    /// Nothing wrong was seen by the work that has run.
    fn assert_clean(&self);
}

impl Application for HostDriver {
    fn fill(&self, on: RawStream, at: Address, bytes: u64, seed: u64) {
        // SAFETY: the host driver looks at every condition itself when the work runs.
        unsafe { Kernels::fill(self, on, at, bytes, seed) }.unwrap();
    }

    fn verify(&self, on: RawStream, at: Address, bytes: u64, seed: u64) {
        // SAFETY: as for `fill`.
        unsafe { Kernels::verify(self, on, at, bytes, seed) }.unwrap();
    }

    fn order(&self, later: RawStream, earlier: RawStream) {
        if later != earlier {
            let event = self.mark(earlier);
            self.order_after(later, event);
            self.forget_mark(event);
        }
    }

    fn order_after(&self, later: RawStream, event: RawEvent) {
        // SAFETY: the host driver refuses streams and events that do not live.
        unsafe { Driver::wait(self, later, event) }.unwrap();
    }

    fn mark(&self, on: RawStream) -> RawEvent {
        // SAFETY: the host driver refuses a stream that does not live.
        unsafe { Driver::record(self, on) }.unwrap()
    }

    fn forget_mark(&self, event: RawEvent) {
        // SAFETY: the host driver refuses an event that does not live.
        unsafe { Driver::forget(self, event) }.unwrap();
    }

    fn new_stream(&self, device: u16) -> RawStream {
        self.create_stream(DeviceId(device)).unwrap()
    }

    fn destroy(&self, stream: RawStream) {
        // SAFETY: the host driver refuses a stream that does not live.
        unsafe { Kernels::destroy_stream(self, stream) }.unwrap();
    }

    fn assert_clean(&self) {
        let tally = self.tally().unwrap();
        assert_eq!(tally.wrong_bytes, 0, "{} bytes were checked", tally.checked_bytes);
        assert!(tally.faults.is_empty(), "{:#?}", tally.faults);
        let ledger = self.ledger();
        assert_eq!(ledger.refusals, 0, "{:?}", ledger.last_refusal);
    }
}

/// So many cases, or as many as `PROPTEST_CASES` asks for.
pub fn cases(count: u32) -> Config {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    Config { cases: if asked { Config::default().cases } else { count }, ..Config::default() }
}
