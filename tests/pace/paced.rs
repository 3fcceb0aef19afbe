//! A wrapper that says when things would be done on the measured machine: the CPU spends what driver calls are
//! priced at, copies follow each other on one link, and waits last until they are done. If that is a link between
//! devices, unmapping and changes of rights wait for every copy that is queued.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stitchpool::driver::{
    Address, CostTable, DeviceId, Driver, Grant, HandleSpec, Metered, RawEvent, RawHandle, RawStream, Result, Verb,
    Wrapper,
};

/// Where copies go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    ToHost,
    BetweenDevices,
}

/// What the link needs between two copies, in microseconds.
const GAP_US: f64 = 2.0;
/// How a wait looks for its end: it stays awake so long, and then looks once in so long.
const AWAKE_US: f64 = 2000.0;
const PAUSE_US: f64 = 105.0;

/// Any driver, on a clock of its own.
#[derive(Debug)]
pub struct Paced {
    driver: Arc<Metered>,
    bytes_per_us: f64,
    way: Way,
    course: Mutex<Course>,
}

/// What has happened, in microseconds of that clock.
#[derive(Clone, Debug, Default)]
struct Course {
    waited_us: f64,
    /// When the last copy will be done.
    copied_us: f64,
    /// When the copies before each event are done.
    events_us: BTreeMap<u64, f64>,
    log: Vec<Step>,
}

/// A call, and when it returned.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub verb: Verb,
    pub at_us: f64,
    /// When what it has queued will be done.
    pub done_us: f64,
}

impl Paced {
    /// A driver whose calls cost what the table says, and whose copies run at so many bytes a microsecond.
    pub fn new(driver: Arc<dyn Driver>, table: CostTable, way: Way, bytes_per_us: f64) -> Arc<Self> {
        Arc::new(Self { driver: Metered::priced(driver, table), bytes_per_us, way, course: Mutex::default() })
    }

    /// Does something, and says how long it took and which calls it made.
    pub fn timed<T>(&self, act: impl FnOnce() -> T) -> (f64, Vec<Step>, T) {
        let begun_us = self.clock_us(&self.course.lock().unwrap());
        self.course.lock().unwrap().log.clear();
        let outcome = act();
        let course = self.course.lock().unwrap();
        (self.clock_us(&course) - begun_us, course.log.clone(), outcome)
    }

    /// Microseconds that driver calls alone have cost so far.
    pub fn calls_us(&self) -> f64 {
        self.driver.spent().total().cost_us
    }

    fn clock_us(&self, course: &Course) -> f64 {
        self.calls_us() + course.waited_us
    }

    fn note(&self, verb: Verb, queued: impl FnOnce(&mut Course, f64)) {
        let mut course = self.course.lock().unwrap();
        let at_us = self.clock_us(&course);
        queued(&mut course, at_us);
        let done_us = course.copied_us;
        course.log.push(Step { verb, at_us, done_us });
    }

    /// What the driver itself waits for before it takes down a mapping or changes its rights.
    fn await_link(&self) {
        let mut course = self.course.lock().unwrap();
        if self.way == Way::BetweenDevices {
            let left_us = course.copied_us - self.clock_us(&course);
            course.waited_us += left_us.max(0.0);
        }
    }

    fn await_until(&self, verb: Verb, until_us: impl FnOnce(&Course) -> f64) {
        self.note(verb, |course, now_us| {
            let left_us = until_us(course) - now_us;
            let pauses = ((left_us - AWAKE_US) / PAUSE_US).ceil().max(0.0);
            course.waited_us += if pauses > 0.0 { pauses.mul_add(PAUSE_US, AWAKE_US) } else { left_us.max(0.0) };
        });
    }
}

impl Wrapper for Paced {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    fn create(&self, spec: HandleSpec) -> Result<RawHandle> {
        let handle = self.inner().create(spec)?;
        self.note(Verb::Create, |_, _| {});
        Ok(handle)
    }

    unsafe fn release(&self, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.inner().release(handle) }?;
        self.note(Verb::Release, |_, _| {});
        Ok(())
    }

    unsafe fn unmap(&self, at: Address, bytes: u64) -> Result<()> {
        self.await_link();
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.inner().unmap(at, bytes) }?;
        self.note(Verb::Unmap, |_, _| {});
        Ok(())
    }

    unsafe fn set_rights(&self, at: Address, bytes: u64, grants: &[Grant]) -> Result<()> {
        self.await_link();
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.inner().set_rights(at, bytes, grants) }
    }

    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        // SAFETY: the caller keeps this verb's conditions.
        let event = unsafe { self.inner().record(stream) }?;
        self.note(Verb::Record, |course, _| _ = course.events_us.insert(event.value, course.copied_us));
        Ok(event)
    }

    unsafe fn is_done(&self, event: RawEvent) -> Result<bool> {
        // SAFETY: the caller keeps this verb's conditions.
        let done = unsafe { self.inner().is_done(event) }?;
        let course = self.course.lock().unwrap();
        Ok(done && course.events_us.get(&event.value).is_none_or(|&done_us| done_us <= self.clock_us(&course)))
    }

    unsafe fn finish(&self, event: RawEvent, limit: Duration) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.inner().finish(event, limit) }?;
        self.await_until(Verb::Finish, |course| course.events_us.get(&event.value).copied().unwrap_or(0.0));
        Ok(())
    }

    unsafe fn copy(&self, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.inner().copy(stream, to, from, bytes) }?;
        let copy_us = bytes as f64 / self.bytes_per_us;
        self.note(Verb::Copy, |course, now_us| course.copied_us = course.copied_us.max(now_us) + GAP_US + copy_us);
        Ok(())
    }

    unsafe fn synchronize(&self, device: DeviceId) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        unsafe { self.inner().synchronize(device) }?;
        self.await_until(Verb::Synchronize, |course| course.copied_us);
        Ok(())
    }
}
