//! A wrapper that lets something happen right after an event was recorded, as another thread might just then;
//! that shows memory as free later than it is, as some drivers do; and that notes which devices were touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stitchpool::driver::{
    Address, Capture, DeviceId, DeviceInfo, DeviceMemory, Driver, Grant, HandleKind, HandleSpec, Link, RawEvent,
    RawHandle, RawStream, Result, Shareable,
};

type Interjection = Box<dyn FnOnce() + Send>;

pub struct Interjecting {
    driver: Arc<dyn Driver>,
    interjection: Mutex<Option<Interjection>>,
    /// How many questions for free memory it takes until more is shown.
    looks: Mutex<u64>,
    /// What was shown last, and how often since there is more.
    shown: Mutex<BTreeMap<DeviceId, (u64, u64)>>,
    touched: Mutex<BTreeSet<DeviceId>>,
}

impl Interjecting {
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        let (looks, shown) = (Mutex::default(), Mutex::default());
        Arc::new(Self { driver, interjection: Mutex::default(), looks, shown, touched: Mutex::default() })
    }

    /// From now on memory that comes back is shown as free only after so many looks.
    pub fn show_after(&self, looks: u64) {
        *self.looks.lock().unwrap() = looks;
    }

    /// The devices that something was done on since the last time which on a GPU makes a context there.
    pub fn take_touched(&self) -> BTreeSet<DeviceId> {
        std::mem::take(&mut self.touched.lock().unwrap())
    }

    fn touch(&self, device: DeviceId) {
        self.touched.lock().unwrap().insert(device);
    }

    /// A default stream means its context's.
    fn touch_if_default(&self, stream: RawStream) {
        if stream.value <= LEGACY_VALUE {
            self.touch(stream.device);
        }
    }

    /// Does this after the next event is recorded, before the caller hears of it.
    pub fn after_next_record(&self, interjection: impl FnOnce() + Send + 'static) {
        *self.interjection.lock().unwrap() = Some(Box::new(interjection));
    }
}

/// The driver's other value for the legacy default stream, beside 0.
const LEGACY_VALUE: u64 = 1;

impl fmt::Debug for Interjecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interjecting").field("driver", &self.driver).finish_non_exhaustive()
    }
}

// Each verb is the wrapped driver's own, under the same conditions.
impl Driver for Interjecting {
    fn name(&self) -> &'static str {
        self.driver.name()
    }

    fn now_us(&self) -> u64 {
        self.driver.now_us()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        self.driver.devices()
    }

    fn memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        self.touch(device);
        let now = self.driver.memory(device)?;
        let mut shown = self.shown.lock().unwrap();
        let (free_bytes, looks) = shown.entry(device).or_insert((now.free_bytes, 0));
        if now.free_bytes > *free_bytes && *looks < *self.looks.lock().unwrap() {
            *looks += 1;
            return Ok(DeviceMemory { free_bytes: *free_bytes, ..now });
        }
        (*free_bytes, *looks) = (now.free_bytes, 0);
        Ok(now)
    }

    fn link(&self, from: DeviceId, to: DeviceId) -> Result<Link> {
        self.driver.link(from, to)
    }

    fn granularity(&self, device: DeviceId, kind: HandleKind) -> Result<u64> {
        self.driver.granularity(device, kind)
    }

    fn reserve(&self, bytes: u64, alignment: u64) -> Result<Address> {
        self.driver.reserve(bytes, alignment)
    }

    unsafe fn unreserve(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.unreserve(at, bytes) }
    }

    fn create(&self, spec: HandleSpec) -> Result<RawHandle> {
        self.driver.create(spec)
    }

    unsafe fn release(&self, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.release(handle) }
    }

    unsafe fn map(&self, at: Address, bytes: u64, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.map(at, bytes, handle) }
    }

    unsafe fn unmap(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.unmap(at, bytes) }
    }

    unsafe fn set_rights(&self, at: Address, bytes: u64, grants: &[Grant]) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.set_rights(at, bytes, grants) }
    }

    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        self.touch_if_default(stream);
        // SAFETY: the caller keeps this verb's conditions.
        let event = unsafe { self.driver.record(stream) }?;
        let interjection = self.interjection.lock().unwrap().take();
        if let Some(interjection) = interjection {
            interjection();
        }
        Ok(event)
    }

    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.touch_if_default(stream);
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.wait(stream, event) }
    }

    unsafe fn is_done(&self, event: RawEvent) -> Result<bool> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.is_done(event) }
    }

    unsafe fn finish(&self, event: RawEvent, limit: Duration) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.finish(event, limit) }
    }

    unsafe fn forget(&self, event: RawEvent) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.forget(event) }
    }

    unsafe fn capture(&self, stream: RawStream) -> Result<Capture> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.capture(stream) }
    }

    unsafe fn stream_identity(&self, stream: RawStream) -> Result<u64> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.stream_identity(stream) }
    }

    unsafe fn copy(&self, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()> {
        self.touch(stream.device);
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.copy(stream, to, from, bytes) }
    }

    unsafe fn memset(&self, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()> {
        self.touch(stream.device);
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.memset(stream, at, bytes, value) }
    }

    unsafe fn read(&self, device: DeviceId, at: Address, into: &mut [u8]) -> Result<()> {
        self.touch(device);
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.read(device, at, into) }
    }

    unsafe fn write(&self, device: DeviceId, at: Address, from: &[u8]) -> Result<()> {
        self.touch(device);
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.write(device, at, from) }
    }

    unsafe fn synchronize(&self, device: DeviceId) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.synchronize(device) }
    }

    unsafe fn export(&self, handle: RawHandle, kind: HandleKind) -> Result<Shareable> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.export(handle, kind) }
    }

    fn import(&self, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle> {
        self.driver.import(shareable, spec)
    }
}
