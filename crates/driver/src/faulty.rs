//! A wrapper that fails chosen calls, for tests. A call that it fails never reaches the driver.

use crate::{
    Address, Capture, DeviceId, DeviceInfo, DeviceMemory, Driver, Error, ErrorKind, Grant, HandleKind, HandleSpec,
    Link, RawEvent, RawHandle, RawStream, Result, Shareable, Verb,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Any driver, with chosen calls failing. Calls are counted in the order in which they come, so one
/// thread sees the same failures in every run.
#[derive(Debug)]
pub struct Faulty {
    driver: Arc<dyn Driver>,
    plan: Mutex<Plan>,
}

/// Which call shall fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The verb that fails; `None` means that every verb counts.
    pub verb: Option<Verb>,
    /// Which of the coming calls fails: 1 is the next one.
    pub nth: u64,
    /// Whether all calls after it fail too.
    pub lasting: bool,
    /// What the refusal is.
    pub kind: ErrorKind,
}

#[derive(Debug, Default)]
struct Plan {
    armed: Vec<Fault>,
    calls: [u64; Verb::ALL.len()],
    failed: u64,
}

impl Faulty {
    /// Wraps a driver; nothing fails yet.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, plan: Mutex::default() })
    }

    /// Arms one more fault. Faults armed before stay.
    pub fn arm(&self, fault: Fault) {
        self.plan.lock().armed.push(fault);
    }

    /// The `nth` next call of `verb` fails (1 is the next one).
    pub fn fail(&self, verb: Verb, nth: u64, kind: ErrorKind) {
        self.arm(Fault { verb: Some(verb), nth, lasting: false, kind });
    }

    /// The `nth` next call of any verb fails.
    pub fn fail_any(&self, nth: u64, kind: ErrorKind) {
        self.arm(Fault { verb: None, nth, lasting: false, kind });
    }

    /// The `nth` next call of any verb fails, and all after it.
    pub fn fail_all_from(&self, nth: u64, kind: ErrorKind) {
        self.arm(Fault { verb: None, nth, lasting: true, kind });
    }

    /// Disarms all faults. Counts stay.
    pub fn clear(&self) {
        self.plan.lock().armed.clear();
    }

    /// Calls of a verb so far, failed ones included.
    #[must_use]
    pub fn calls(&self, verb: Verb) -> u64 {
        self.plan.lock().calls[verb as usize]
    }

    /// Calls of all verbs so far, failed ones included.
    #[must_use]
    pub fn total_calls(&self) -> u64 {
        self.plan.lock().calls.iter().sum()
    }

    /// Calls that were made to fail so far.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.plan.lock().failed
    }

    fn meet(&self, verb: Verb) -> Result<()> {
        let Some(kind) = self.plan.lock().meet(verb) else { return Ok(()) };
        Err(Error::new(verb, kind, "this call was chosen to fail, for a test"))
    }
}

impl Plan {
    /// Counts a call, and says how it fails if it does.
    fn meet(&mut self, verb: Verb) -> Option<ErrorKind> {
        self.calls[verb as usize] += 1;
        let mut kind = None;
        for fault in self.armed.iter_mut().filter(|fault| fault.verb.is_none_or(|chosen| chosen == verb)) {
            fault.nth = fault.nth.saturating_sub(1);
            if fault.nth == 0 {
                kind = kind.or(Some(fault.kind));
            }
        }
        self.armed.retain(|fault| fault.lasting || fault.nth > 0);
        self.failed += u64::from(kind.is_some());
        kind
    }
}

// Each verb is the wrapped driver's own, under the same conditions.
impl Driver for Faulty {
    fn name(&self) -> &'static str {
        self.driver.name()
    }

    fn now_us(&self) -> u64 {
        self.driver.now_us()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        self.meet(Verb::Devices)?;
        self.driver.devices()
    }

    fn memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        self.meet(Verb::Memory)?;
        self.driver.memory(device)
    }

    fn link(&self, from: DeviceId, to: DeviceId) -> Result<Link> {
        self.meet(Verb::LinkBetween)?;
        self.driver.link(from, to)
    }

    fn granularity(&self, device: DeviceId, kind: HandleKind) -> Result<u64> {
        self.meet(Verb::Granularity)?;
        self.driver.granularity(device, kind)
    }

    fn reserve(&self, bytes: u64, alignment: u64) -> Result<Address> {
        self.meet(Verb::Reserve)?;
        self.driver.reserve(bytes, alignment)
    }

    unsafe fn unreserve(&self, at: Address, bytes: u64) -> Result<()> {
        self.meet(Verb::Unreserve)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.unreserve(at, bytes) }
    }

    fn create(&self, spec: HandleSpec) -> Result<RawHandle> {
        self.meet(Verb::Create)?;
        self.driver.create(spec)
    }

    unsafe fn release(&self, handle: RawHandle) -> Result<()> {
        self.meet(Verb::Release)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.release(handle) }
    }

    unsafe fn map(&self, at: Address, bytes: u64, handle: RawHandle) -> Result<()> {
        self.meet(Verb::Map)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.map(at, bytes, handle) }
    }

    unsafe fn unmap(&self, at: Address, bytes: u64) -> Result<()> {
        self.meet(Verb::Unmap)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.unmap(at, bytes) }
    }

    unsafe fn set_rights(&self, at: Address, bytes: u64, grants: &[Grant]) -> Result<()> {
        self.meet(Verb::SetRights)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.set_rights(at, bytes, grants) }
    }

    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        self.meet(Verb::Record)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.record(stream) }
    }

    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.meet(Verb::Wait)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.wait(stream, event) }
    }

    unsafe fn is_done(&self, event: RawEvent) -> Result<bool> {
        self.meet(Verb::IsDone)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.is_done(event) }
    }

    unsafe fn finish(&self, event: RawEvent, limit: Duration) -> Result<()> {
        self.meet(Verb::Finish)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.finish(event, limit) }
    }

    unsafe fn forget(&self, event: RawEvent) -> Result<()> {
        self.meet(Verb::Forget)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.forget(event) }
    }

    unsafe fn capture(&self, stream: RawStream) -> Result<Capture> {
        self.meet(Verb::CaptureOf)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.capture(stream) }
    }

    unsafe fn stream_identity(&self, stream: RawStream) -> Result<u64> {
        self.meet(Verb::StreamIdentity)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.stream_identity(stream) }
    }

    unsafe fn copy(&self, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()> {
        self.meet(Verb::Copy)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.copy(stream, to, from, bytes) }
    }

    unsafe fn memset(&self, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()> {
        self.meet(Verb::Memset)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.memset(stream, at, bytes, value) }
    }

    unsafe fn read(&self, device: DeviceId, at: Address, into: &mut [u8]) -> Result<()> {
        self.meet(Verb::Read)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.read(device, at, into) }
    }

    unsafe fn write(&self, device: DeviceId, at: Address, from: &[u8]) -> Result<()> {
        self.meet(Verb::Write)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.write(device, at, from) }
    }

    unsafe fn synchronize(&self, device: DeviceId) -> Result<()> {
        self.meet(Verb::Synchronize)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.synchronize(device) }
    }

    unsafe fn export(&self, handle: RawHandle, kind: HandleKind) -> Result<Shareable> {
        self.meet(Verb::Export)?;
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.driver.export(handle, kind) }
    }

    fn import(&self, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle> {
        self.meet(Verb::Import)?;
        self.driver.import(shareable, spec)
    }
}
