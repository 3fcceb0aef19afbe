//! A wrapper that counts each verb and what it cost. It changes nothing that it passes on.

mod track;

use crate::{
    Address, Capture, CostTable, DeviceId, DeviceInfo, DeviceMemory, Driver, Grant, HandleKind, HandleSpec, Link,
    RawEvent, RawHandle, RawStream, Result, Shareable, Verb,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use track::Track;

/// Any driver, with its calls counted, and told of to whoever subscribes to `tracing` (target
/// `stitchpool::driver`; refusals as `debug`, other calls as `trace`). The cost of a call is its wall clock, or its price in a table;
/// refused calls are counted, and cost no price.
#[derive(Debug)]
pub struct Metered {
    driver: Arc<dyn Driver>,
    prices: Option<Prices>,
    meters: [Meter; Verb::ALL.len()],
}

/// What calls have cost since the meter was made, or since an earlier reading of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    by_verb: [VerbSpent; Verb::ALL.len()],
}

/// What the calls of one verb have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VerbSpent {
    /// Calls, refused ones included.
    pub calls: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// Their wall clock or their price, in microseconds.
    pub cost_us: f64,
    /// Their wall clock inside the driver, in microseconds.
    pub wall_us: f64,
}

#[derive(Debug)]
struct Prices {
    table: CostTable,
    track: Mutex<Track>,
}

#[derive(Debug, Default)]
struct Meter {
    calls: AtomicU64,
    refused: AtomicU64,
    price_ns: AtomicU64,
    wall_ns: AtomicU64,
}

impl Metered {
    /// Wraps a driver; a call costs its wall clock.
    #[must_use]
    pub fn timed(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, prices: None, meters: Default::default() })
    }

    /// Wraps a driver; a call costs what the table says.
    #[must_use]
    pub fn priced(driver: Arc<dyn Driver>, table: CostTable) -> Arc<Self> {
        let prices = Some(Prices { table, track: Mutex::default() });
        Arc::new(Self { driver, prices, meters: Default::default() })
    }

    /// What all calls so far have cost. Calls under way count in part.
    #[must_use]
    pub fn spent(&self) -> Spent {
        let priced = self.prices.is_some();
        Spent { by_verb: std::array::from_fn(|verb| self.meters[verb].read(priced)) }
    }

    /// Makes a call and notes its wall clock; `price_us` is asked for the rest if there are prices.
    fn meter<T>(
        &self,
        verb: Verb,
        call: impl FnOnce(&dyn Driver) -> Result<T>,
        price_us: impl FnOnce(&mut Track, &CostTable, &T) -> f64,
    ) -> Result<T> {
        let (result, meter) = self.clocked(verb, call);
        if let (Ok(value), Some(prices)) = (&result, &self.prices) {
            meter.charge(price_us(&mut prices.track.lock(), &prices.table, value));
        }
        result
    }

    /// The same for a verb whose price no handle changes: it takes no lock.
    fn meter_fixed<T>(&self, verb: Verb, call: impl FnOnce(&dyn Driver) -> Result<T>) -> Result<T> {
        let (result, meter) = self.clocked(verb, call);
        if let (true, Some(prices)) = (result.is_ok(), &self.prices) {
            meter.charge(prices.table.fixed_us(verb));
        }
        result
    }

    fn clocked<T>(&self, verb: Verb, call: impl FnOnce(&dyn Driver) -> Result<T>) -> (Result<T>, &Meter) {
        let meter = &self.meters[verb as usize];
        let start = Instant::now();
        let result = call(&*self.driver);
        let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        match &result {
            Ok(_) => tracing::trace!(target: "stitchpool::driver", %verb, wall_ns, "called"),
            Err(error) => tracing::debug!(target: "stitchpool::driver", %verb, wall_ns, %error, "was refused"),
        }
        meter.wall_ns.fetch_add(wall_ns, Relaxed);
        meter.calls.fetch_add(1, Relaxed);
        meter.refused.fetch_add(u64::from(result.is_err()), Relaxed);
        (result, meter)
    }
}

impl Meter {
    fn charge(&self, price_us: f64) {
        self.price_ns.fetch_add((price_us * NS_PER_US).round() as u64, Relaxed);
    }

    fn read(&self, priced: bool) -> VerbSpent {
        let us = |ns: &AtomicU64| ns.load(Relaxed) as f64 / NS_PER_US;
        let cost_us = us(if priced { &self.price_ns } else { &self.wall_ns });
        let (calls, refused) = (self.calls.load(Relaxed), self.refused.load(Relaxed));
        VerbSpent { calls, refused, cost_us, wall_us: us(&self.wall_ns) }
    }
}

const NS_PER_US: f64 = 1000.0;

impl Spent {
    /// What one verb's calls have cost.
    #[must_use]
    pub const fn of(&self, verb: Verb) -> VerbSpent {
        self.by_verb[verb as usize]
    }

    /// What each verb's calls have cost, in the order of [`Verb::ALL`].
    pub fn by_verb(&self) -> impl Iterator<Item = (Verb, VerbSpent)> {
        Verb::ALL.iter().map(|&verb| (verb, self.of(verb)))
    }

    /// What all calls have cost.
    #[must_use]
    pub fn total(&self) -> VerbSpent {
        self.by_verb.iter().fold(VerbSpent::default(), |sum, spent| VerbSpent {
            calls: sum.calls + spent.calls,
            refused: sum.refused + spent.refused,
            cost_us: sum.cost_us + spent.cost_us,
            wall_us: sum.wall_us + spent.wall_us,
        })
    }

    /// What was spent after `earlier`, a reading of the same meter.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let by_verb = std::array::from_fn(|verb| {
            let (now, then) = (self.by_verb[verb], earlier.by_verb[verb]);
            VerbSpent {
                calls: now.calls - then.calls,
                refused: now.refused - then.refused,
                cost_us: now.cost_us - then.cost_us,
                wall_us: now.wall_us - then.wall_us,
            }
        });
        Self { by_verb }
    }
}

// Each verb is the wrapped driver's own, under the same conditions.
impl Driver for Metered {
    fn name(&self) -> &'static str {
        self.driver.name()
    }

    fn now_us(&self) -> u64 {
        self.driver.now_us()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        self.meter_fixed(Verb::Devices, |driver| driver.devices())
    }

    fn memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        self.meter_fixed(Verb::Memory, |driver| driver.memory(device))
    }

    fn link(&self, from: DeviceId, to: DeviceId) -> Result<Link> {
        self.meter_fixed(Verb::LinkBetween, |driver| driver.link(from, to))
    }

    fn granularity(&self, device: DeviceId, kind: HandleKind) -> Result<u64> {
        self.meter_fixed(Verb::Granularity, |driver| driver.granularity(device, kind))
    }

    fn reserve(&self, bytes: u64, alignment: u64) -> Result<Address> {
        self.meter_fixed(Verb::Reserve, |driver| driver.reserve(bytes, alignment))
    }

    unsafe fn unreserve(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Unreserve, |driver| unsafe { driver.unreserve(at, bytes) })
    }

    fn create(&self, spec: HandleSpec) -> Result<RawHandle> {
        self.meter(
            Verb::Create,
            |driver| driver.create(spec),
            |track, table, &handle| {
                track.created(handle, spec.bytes);
                table.handle(spec.bytes).create_us
            },
        )
    }

    unsafe fn release(&self, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        let call = |driver: &dyn Driver| unsafe { driver.release(handle) };
        self.meter(Verb::Release, call, |track, table, ()| table.handle(track.released(handle)).release_us)
    }

    unsafe fn map(&self, at: Address, bytes: u64, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        let call = |driver: &dyn Driver| unsafe { driver.map(at, bytes, handle) };
        self.meter(Verb::Map, call, |track, table, ()| {
            track.mapped(at, bytes, handle);
            table.handle(bytes).map_us
        })
    }

    unsafe fn unmap(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        let call = |driver: &dyn Driver| unsafe { driver.unmap(at, bytes) };
        self.meter(Verb::Unmap, call, |track, table, ()| track.unmapped(at, bytes, table))
    }

    unsafe fn set_rights(&self, at: Address, bytes: u64, grants: &[Grant]) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        let call = |driver: &dyn Driver| unsafe { driver.set_rights(at, bytes, grants) };
        self.meter(Verb::SetRights, call, |track, table, ()| track.opened(at, bytes, grants, table))
    }

    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Record, |driver| unsafe { driver.record(stream) })
    }

    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Wait, |driver| unsafe { driver.wait(stream, event) })
    }

    unsafe fn is_done(&self, event: RawEvent) -> Result<bool> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::IsDone, |driver| unsafe { driver.is_done(event) })
    }

    unsafe fn finish(&self, event: RawEvent, limit: Duration) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Finish, |driver| unsafe { driver.finish(event, limit) })
    }

    unsafe fn forget(&self, event: RawEvent) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Forget, |driver| unsafe { driver.forget(event) })
    }

    unsafe fn capture(&self, stream: RawStream) -> Result<Capture> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::CaptureOf, |driver| unsafe { driver.capture(stream) })
    }

    unsafe fn stream_identity(&self, stream: RawStream) -> Result<u64> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::StreamIdentity, |driver| unsafe { driver.stream_identity(stream) })
    }

    unsafe fn copy(&self, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Copy, |driver| unsafe { driver.copy(stream, to, from, bytes) })
    }

    unsafe fn memset(&self, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Memset, |driver| unsafe { driver.memset(stream, at, bytes, value) })
    }

    unsafe fn read(&self, device: DeviceId, at: Address, into: &mut [u8]) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Read, |driver| unsafe { driver.read(device, at, into) })
    }

    unsafe fn write(&self, device: DeviceId, at: Address, from: &[u8]) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Write, |driver| unsafe { driver.write(device, at, from) })
    }

    unsafe fn synchronize(&self, device: DeviceId) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Synchronize, |driver| unsafe { driver.synchronize(device) })
    }

    unsafe fn export(&self, handle: RawHandle, kind: HandleKind) -> Result<Shareable> {
        // SAFETY: the caller keeps this verb's conditions.
        self.meter_fixed(Verb::Export, |driver| unsafe { driver.export(handle, kind) })
    }

    fn import(&self, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle> {
        self.meter(
            Verb::Import,
            |driver| driver.import(shareable, spec),
            |track, table, &handle| {
                track.imported(handle, spec.bytes);
                table.fixed_us(Verb::Import)
            },
        )
    }
}
