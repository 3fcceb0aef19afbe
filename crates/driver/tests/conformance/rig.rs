//! A driver under test, and all that a row has made with it. What a row leaves behind is given back
//! at its end, and on the host driver nothing may be left then.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use stitchpool_driver::cuda::CudaDriver;
use stitchpool_driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool_driver::{
    Address, DeviceId, Driver, ErrorKind, Grant, HandleKind, HandleSpec, Kernels, RawEvent, RawHandle, RawStream,
    Result, Rights, Tally,
};

pub(crate) const FIRST: DeviceId = DeviceId(0);
pub(crate) const SECOND: DeviceId = DeviceId(1);
/// How long a test waits for work that takes milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One driver, and what a row has made with it.
pub(crate) struct Rig<'a> {
    pub(crate) driver: &'a dyn Driver,
    kernels: &'a dyn Kernels,
    /// The larger of all granularities, so that a count of it suits every place.
    pub(crate) granule: u64,
    before: Tally,
    reservations: RefCell<Vec<(Address, u64)>>,
    handles: RefCell<Vec<RawHandle>>,
    mappings: RefCell<Vec<(Address, u64)>>,
    events: RefCell<Vec<RawEvent>>,
    streams: RefCell<Vec<RawStream>>,
}

/// Runs a row on host drivers of two devices.
pub(crate) fn on_host(row: fn(&Rig)) {
    for granularity_bytes in [4 << 10, 64 << 10, 2 << 20] {
        let device = HostDevice { capacity_bytes: 2048 * granularity_bytes, granularity_bytes };
        // Rows order all that they do, as a GPU needs it.
        let config =
            HostConfig { devices: vec![device; 2], host_memory: device, watch_order: true, ..HostConfig::default() };
        let host = HostDriver::new(config).unwrap();
        let rig = Rig::new(&*host, &*host);
        row(&rig);
        let faults = rig.tally().faults.len();
        rig.tidy();
        assert_eq!(rig.tally().faults.len(), faults, "{:?}", rig.tally().faults);
        assert!(host.ledger().is_empty(), "{:?}", host.ledger());
    }
}

/// Runs a row on the GPUs of this machine, if there are any; one row at a time, so that free bytes
/// are this row's alone.
pub(crate) fn on_cuda(row: fn(&Rig)) {
    static CUDA: OnceLock<Option<Arc<CudaDriver>>> = OnceLock::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Some(cuda) = CUDA.get_or_init(|| CudaDriver::open().ok()) else {
        println!("no GPU: skipped");
        return;
    };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let rig = Rig::new(&**cuda, &**cuda);
    row(&rig);
    rig.tidy();
}

/// Fails unless a call was refused in one of these ways.
#[track_caller]
pub(crate) fn refused<T: Debug>(result: Result<T>, kinds: &[ErrorKind]) {
    let error = result.expect_err("the driver took what it must refuse");
    assert!(kinds.contains(&error.kind), "{error}");
    assert!(!error.detail.is_empty());
}

// SAFETY of every unsafe call below: rows name what they made and have not given back; where a row
// breaks a condition on purpose, the seam says that the driver checks it, or the row is for the
// host driver alone, whose ledger checks all of them.
impl<'a> Rig<'a> {
    fn new(driver: &'a dyn Driver, kernels: &'a dyn Kernels) -> Self {
        let places = driver.devices().unwrap().into_iter().map(|device| device.id).chain([DeviceId::HOST]);
        let granules = places.map(|place| driver.granularity(place, HandleKind::Private).unwrap());
        let (reservations, handles, mappings, events, streams) = Default::default();
        let (granule, before) = (granules.max().unwrap(), kernels.tally().unwrap());
        Self { driver, kernels, granule, before, reservations, handles, mappings, events, streams }
    }

    /// Whether there is a second device that reaches the first and is reached by it; the row is skipped if not.
    pub(crate) fn has_two(&self) -> bool {
        let two = self.driver.devices().unwrap().len() > 1
            && [(FIRST, SECOND), (SECOND, FIRST)]
                .iter()
                .all(|&(from, to)| self.driver.link(from, to).unwrap() != stitchpool_driver::Link::None);
        if !two {
            println!("no second device that reaches the first: skipped");
        }
        two
    }

    pub(crate) fn reserve(&self, granules: u64) -> Address {
        let bytes = granules * self.granule;
        let at = self.driver.reserve(bytes, 0).unwrap();
        self.reservations.borrow_mut().push((at, bytes));
        at
    }

    pub(crate) fn unreserve(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.unreserve(at, bytes) }?;
        self.reservations.borrow_mut().retain(|&(start, _)| start != at);
        Ok(())
    }

    pub(crate) fn create(&self, device: DeviceId, granules: u64) -> RawHandle {
        self.create_kind(device, granules, HandleKind::Private).unwrap()
    }

    pub(crate) fn create_kind(&self, device: DeviceId, granules: u64, kind: HandleKind) -> Result<RawHandle> {
        let handle = self.driver.create(HandleSpec { device, bytes: granules * self.granule, kind })?;
        self.handles.borrow_mut().push(handle);
        Ok(handle)
    }

    /// A handle that a row has from `import`.
    pub(crate) fn adopt(&self, handle: RawHandle) -> RawHandle {
        self.handles.borrow_mut().push(handle);
        handle
    }

    pub(crate) fn release(&self, handle: RawHandle) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.release(handle) }?;
        self.handles.borrow_mut().retain(|&live| live != handle);
        Ok(())
    }

    pub(crate) fn map(&self, at: Address, granules: u64, handle: RawHandle) -> Result<()> {
        let bytes = granules * self.granule;
        // SAFETY: see above.
        unsafe { self.driver.map(at, bytes, handle) }?;
        self.mappings.borrow_mut().push((at, bytes));
        Ok(())
    }

    /// Unmaps a run of `granules`.
    pub(crate) fn unmap(&self, at: Address, granules: u64) -> Result<()> {
        let end = at + granules * self.granule;
        // SAFETY: see above.
        unsafe { self.driver.unmap(at, granules * self.granule) }?;
        self.mappings.borrow_mut().retain(|&(start, _)| start < at || start >= end);
        Ok(())
    }

    pub(crate) fn open(&self, at: Address, granules: u64, device: DeviceId, rights: Rights) -> Result<()> {
        self.open_all(at, granules, &[Grant { device, rights }])
    }

    pub(crate) fn open_all(&self, at: Address, granules: u64, grants: &[Grant]) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.set_rights(at, granules * self.granule, grants) }
    }

    /// A new reservation with one mapping for each device named, in order, each of `granules`, open
    /// for reading and writing to all of them.
    pub(crate) fn stitch(&self, devices: &[DeviceId], granules: u64) -> Address {
        let start = self.reserve(devices.len() as u64 * granules);
        for (&device, index) in devices.iter().zip(0..) {
            self.map(start + index * granules * self.granule, granules, self.create(device, granules)).unwrap();
        }
        let mut grants: Vec<_> = devices.iter().map(|&device| Grant { device, rights: Rights::ReadWrite }).collect();
        grants.sort();
        grants.dedup();
        self.open_all(start, devices.len() as u64 * granules, &grants).unwrap();
        start
    }

    pub(crate) fn stream(&self, device: DeviceId) -> RawStream {
        let stream = self.kernels.create_stream(device).unwrap();
        self.streams.borrow_mut().push(stream);
        stream
    }

    pub(crate) fn destroy(&self, stream: RawStream) {
        // SAFETY: see above.
        unsafe { self.kernels.destroy_stream(stream) }.unwrap();
        self.streams.borrow_mut().retain(|&live| live != stream);
    }

    pub(crate) fn record(&self, stream: RawStream) -> RawEvent {
        // SAFETY: see above.
        let event = unsafe { self.driver.record(stream) }.unwrap();
        self.events.borrow_mut().push(event);
        event
    }

    pub(crate) fn forget(&self, event: RawEvent) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.forget(event) }?;
        self.events.borrow_mut().retain(|&live| live != event);
        Ok(())
    }

    pub(crate) fn wait(&self, stream: RawStream, event: RawEvent) {
        // SAFETY: see above.
        unsafe { self.driver.wait(stream, event) }.unwrap();
    }

    pub(crate) fn is_done(&self, event: RawEvent) -> Result<bool> {
        // SAFETY: see above.
        unsafe { self.driver.is_done(event) }
    }

    pub(crate) fn finish(&self, event: RawEvent, limit: Duration) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.finish(event, limit) }
    }

    pub(crate) fn identity(&self, stream: RawStream) -> u64 {
        // SAFETY: see above.
        unsafe { self.driver.stream_identity(stream) }.unwrap()
    }

    pub(crate) fn delay(&self, stream: RawStream, micros: u64) {
        // SAFETY: see above.
        unsafe { self.kernels.delay(stream, micros) }.unwrap();
    }

    pub(crate) fn fill(&self, stream: RawStream, at: Address, granules: u64, seed: u64) {
        // SAFETY: see above.
        unsafe { self.kernels.fill(stream, at, granules * self.granule, seed) }.unwrap();
    }

    pub(crate) fn verify(&self, stream: RawStream, at: Address, granules: u64, seed: u64) {
        // SAFETY: see above.
        unsafe { self.kernels.verify(stream, at, granules * self.granule, seed) }.unwrap();
    }

    pub(crate) fn copy(&self, stream: RawStream, to: Address, from: Address, granules: u64) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.copy(stream, to, from, granules * self.granule) }
    }

    pub(crate) fn memset(&self, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.memset(stream, at, bytes, value) }
    }

    /// What the process reads by a device.
    pub(crate) fn bytes(&self, device: DeviceId, at: Address, bytes: u64) -> Result<Vec<u8>> {
        let mut found = vec![0; bytes as usize];
        // SAFETY: see above.
        unsafe { self.driver.read(device, at, &mut found) }.map(|()| found)
    }

    /// What the process writes by a device.
    pub(crate) fn put(&self, device: DeviceId, at: Address, bytes: &[u8]) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.write(device, at, bytes) }
    }

    pub(crate) fn synchronize(&self, device: DeviceId) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.driver.synchronize(device) }
    }

    pub(crate) fn finish_stream(&self, stream: RawStream) {
        // SAFETY: see above.
        unsafe { self.kernels.finish_stream(stream) }.unwrap();
    }

    /// What checks have found since the row began.
    pub(crate) fn tally(&self) -> Tally {
        let now = self.kernels.tally().unwrap();
        Tally {
            checked_bytes: now.checked_bytes - self.before.checked_bytes,
            wrong_bytes: now.wrong_bytes - self.before.wrong_bytes,
            faults: now.faults[self.before.faults.len()..].to_vec(),
        }
    }

    /// Fails unless so many granules were compared and all were right.
    #[track_caller]
    pub(crate) fn demand_right(&self, granules: u64) {
        let checked_bytes = granules * self.granule;
        assert_eq!(self.tally(), Tally { checked_bytes, wrong_bytes: 0, faults: Vec::new() });
    }

    pub(crate) fn free_bytes(&self, device: DeviceId) -> u64 {
        self.driver.memory(device).unwrap().free_bytes
    }

    /// The bytes of a mapped granule, read by the CPU through host memory.
    pub(crate) fn read(&self, at: Address) -> Vec<u8> {
        let window = self.reserve(1);
        self.map(window, 1, self.create(DeviceId::HOST, 1)).unwrap();
        let grants = [DeviceId::HOST, FIRST].map(|device| Grant { device, rights: Rights::ReadWrite });
        self.open_all(window, 1, &grants).unwrap();
        let stream = self.stream(FIRST);
        self.copy(stream, window, at, 1).unwrap();
        self.finish_stream(stream);
        let start = std::ptr::with_exposed_provenance::<u8>(window.0 as usize);
        // SAFETY: the window is mapped and open to the CPU, and the copy into it is done.
        unsafe { std::slice::from_raw_parts(start, self.granule as usize) }.to_vec()
    }

    fn tidy(&self) {
        for stream in self.streams.take() {
            // SAFETY: see above.
            unsafe { self.kernels.finish_stream(stream).and_then(|()| self.kernels.destroy_stream(stream)) }.unwrap();
        }
        // SAFETY: see above; all work was finished just now.
        unsafe {
            self.events.take().into_iter().for_each(|event| self.driver.forget(event).unwrap());
            self.mappings.take().into_iter().for_each(|(at, bytes)| self.driver.unmap(at, bytes).unwrap());
            self.handles.take().into_iter().for_each(|handle| self.driver.release(handle).unwrap());
            self.reservations.take().into_iter().for_each(|(at, bytes)| self.driver.unreserve(at, bytes).unwrap());
        }
    }
}
