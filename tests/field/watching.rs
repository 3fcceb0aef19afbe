//! A wrapper that shows memory as free later than it is, as some drivers do, and notes which devices were touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use stitchpool::driver::{Address, DeviceId, DeviceMemory, Driver, RawEvent, RawStream, Result, Wrapper};

#[derive(Debug)]
pub(crate) struct Watching {
    driver: Arc<dyn Driver>,
    /// How many questions for free memory it takes until more is shown.
    looks: Mutex<u64>,
    /// What was shown last, and how often since there is more.
    shown: Mutex<BTreeMap<DeviceId, (u64, u64)>>,
    touched: Mutex<BTreeSet<DeviceId>>,
}

/// The driver's other value for the legacy default stream, beside 0.
const LEGACY_VALUE: u64 = 1;

impl Watching {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        let (looks, shown, touched) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { driver, looks, shown, touched })
    }

    /// From now on memory that comes back is shown as free only after so many looks.
    pub(crate) fn show_after(&self, looks: u64) {
        *self.looks.lock().unwrap() = looks;
    }

    /// The devices that something was done on since the last time which on a GPU makes a context there.
    pub(crate) fn take_touched(&self) -> BTreeSet<DeviceId> {
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
}

impl Wrapper for Watching {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
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

    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        self.touch_if_default(stream);
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.record(stream) }
    }

    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.touch_if_default(stream);
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.wait(stream, event) }
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
}
