//! A host driver on the workbench of a test, with small granules.

use std::sync::Arc;
use stitchpool_driver::host::{HostConfig, HostDevice, HostDriver, StreamMode};
use stitchpool_driver::{
    Address, DeviceId, Driver, Grant, HandleKind, HandleSpec, Kernels, RawEvent, RawHandle, RawStream, Result, Rights,
};

pub(crate) const FIRST: DeviceId = DeviceId(0);
pub(crate) const GRANULE: u64 = 64 << 10;
pub(crate) const CAPACITY: u64 = 1024 * GRANULE;

/// A driver of two small devices.
pub(crate) fn config() -> HostConfig {
    let device = HostDevice { capacity_bytes: CAPACITY, granularity_bytes: GRANULE };
    HostConfig { devices: vec![device; 2], host_memory: device, ..HostConfig::default() }
}

/// The same, with streams that run as `streams` says.
pub(crate) fn with_streams(streams: StreamMode) -> Bench {
    Bench::new(HostConfig { streams, ..config() })
}

/// A driver whose unsafe verbs a test may call without ceremony.
pub(crate) struct Bench(pub(crate) Arc<HostDriver>);

// SAFETY of every unsafe call below: the host driver's ledger checks all conditions of the seam
// itself, and refuses or notes what breaks one.
impl Bench {
    pub(crate) fn new(config: HostConfig) -> Self {
        Self(HostDriver::new(config).unwrap())
    }

    pub(crate) fn create(&self, granules: u64) -> Result<RawHandle> {
        self.create_kind(granules, HandleKind::Private)
    }

    pub(crate) fn create_kind(&self, granules: u64, kind: HandleKind) -> Result<RawHandle> {
        self.0.create(HandleSpec { device: FIRST, bytes: granules * GRANULE, kind })
    }

    pub(crate) fn release(&self, handle: RawHandle) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.0.release(handle) }
    }

    pub(crate) fn reserve(&self, granules: u64) -> Address {
        self.0.reserve(granules * GRANULE, 0).unwrap()
    }

    pub(crate) fn unreserve(&self, at: Address, granules: u64) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.0.unreserve(at, granules * GRANULE) }
    }

    pub(crate) fn map(&self, at: Address, granules: u64, handle: RawHandle) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.0.map(at, granules * GRANULE, handle) }
    }

    pub(crate) fn unmap(&self, at: Address, granules: u64) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.0.unmap(at, granules * GRANULE) }
    }

    pub(crate) fn open(&self, at: Address, granules: u64, rights: Rights) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.0.set_rights(at, granules * GRANULE, &[Grant { device: FIRST, rights }]) }
    }

    /// A new reservation with one open handle behind all of it.
    pub(crate) fn buffer(&self, granules: u64) -> Address {
        let at = self.reserve(granules);
        self.map(at, granules, self.create(granules).unwrap()).unwrap();
        self.open(at, granules, Rights::ReadWrite).unwrap();
        at
    }

    pub(crate) fn stream(&self) -> RawStream {
        self.0.create_stream(FIRST).unwrap()
    }

    pub(crate) fn fill(&self, stream: RawStream, at: Address, seed: u64) {
        // SAFETY: see above.
        unsafe { self.0.fill(stream, at, GRANULE, seed) }.unwrap();
    }

    pub(crate) fn verify(&self, stream: RawStream, at: Address, seed: u64) {
        // SAFETY: see above.
        unsafe { self.0.verify(stream, at, GRANULE, seed) }.unwrap();
    }

    pub(crate) fn delay(&self, stream: RawStream, micros: u64) {
        // SAFETY: see above.
        unsafe { self.0.delay(stream, micros) }.unwrap();
    }

    pub(crate) fn destroy(&self, stream: RawStream) {
        // SAFETY: see above.
        unsafe { self.0.destroy_stream(stream) }.unwrap();
    }

    pub(crate) fn finish_stream(&self, stream: RawStream) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.0.finish_stream(stream) }
    }

    pub(crate) fn record(&self, stream: RawStream) -> Result<RawEvent> {
        // SAFETY: see above.
        unsafe { self.0.record(stream) }
    }

    pub(crate) fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.0.wait(stream, event) }
    }

    pub(crate) fn is_done(&self, event: RawEvent) -> bool {
        // SAFETY: see above.
        unsafe { self.0.is_done(event) }.unwrap()
    }

    pub(crate) fn finish(&self, event: RawEvent) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.0.finish(event, std::time::Duration::from_secs(1)) }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.0.memory(FIRST).unwrap().free_bytes
    }

    /// Bytes compared and wrong so far.
    pub(crate) fn checked(&self) -> (u64, u64) {
        let tally = self.0.tally().unwrap();
        (tally.checked_bytes, tally.wrong_bytes)
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.0.tally().unwrap().faults
    }
}
