//! A wrapper that counts each verb and what it cost. It changes nothing that it passes on.

mod spent;
mod track;

use crate::{Address, CostTable, Driver, Grant, HandleSpec, RawHandle, Result, Shareable, Verb, Wrapper};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use track::Track;

pub use spent::{Spent, VerbSpent};

/// Any driver, with its calls counted, and told of to whoever subscribes to `tracing` (target
/// `stitchpool::driver`; refusals as `debug`, other calls as `trace`). The cost of a call is its wall clock, or its price in a table;
/// refused calls are counted, and cost no price.
#[derive(Debug)]
pub struct Metered {
    driver: Arc<dyn Driver>,
    prices: Option<Prices>,
    meters: [Meter; Verb::ALL.len()],
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

    /// Charges a call that was made with what `price_us` says, if there are prices.
    fn charge(&self, verb: Verb, price_us: impl FnOnce(&mut Track, &CostTable) -> f64) {
        if let Some(prices) = &self.prices {
            self.meters[verb as usize].charge(price_us(&mut prices.track.lock(), &prices.table));
        }
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

impl Wrapper for Metered {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    fn around<T>(&self, verb: Verb, call: impl FnOnce(&dyn Driver) -> Result<T>) -> Result<T> {
        let meter = &self.meters[verb as usize];
        let start = Instant::now();
        let result = call(self.inner());
        let wall_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        match &result {
            Ok(_) => tracing::trace!(target: "stitchpool::driver", %verb, wall_ns, "called"),
            Err(error) => tracing::debug!(target: "stitchpool::driver", %verb, wall_ns, %error, "was refused"),
        }
        meter.wall_ns.fetch_add(wall_ns, Relaxed);
        meter.calls.fetch_add(1, Relaxed);
        meter.refused.fetch_add(u64::from(result.is_err()), Relaxed);
        if let (true, Some(prices)) = (result.is_ok(), &self.prices) {
            meter.charge(prices.table.fixed_us(verb));
        }
        result
    }

    // From here on: the verbs whose price goes with a handle's size, and those that tell of one.

    fn create(&self, spec: HandleSpec) -> Result<RawHandle> {
        let handle = self.around(Verb::Create, |driver| driver.create(spec))?;
        self.charge(Verb::Create, |track, table| {
            track.created(handle, spec.bytes);
            table.handle(spec.bytes).create_us
        });
        Ok(handle)
    }

    fn import(&self, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle> {
        let handle = self.around(Verb::Import, |driver| driver.import(shareable, spec))?;
        if let Some(prices) = &self.prices {
            prices.track.lock().imported(handle, spec.bytes);
        }
        Ok(handle)
    }

    unsafe fn release(&self, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.around(Verb::Release, |driver| unsafe { driver.release(handle) })?;
        self.charge(Verb::Release, |track, table| table.handle(track.released(handle)).release_us);
        Ok(())
    }

    unsafe fn map(&self, at: Address, bytes: u64, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.around(Verb::Map, |driver| unsafe { driver.map(at, bytes, handle) })?;
        self.charge(Verb::Map, |track, table| {
            track.mapped(at, bytes, handle);
            table.handle(bytes).map_us
        });
        Ok(())
    }

    unsafe fn unmap(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.around(Verb::Unmap, |driver| unsafe { driver.unmap(at, bytes) })?;
        self.charge(Verb::Unmap, |track, table| track.unmapped(at, bytes, table));
        Ok(())
    }

    unsafe fn set_rights(&self, at: Address, bytes: u64, grants: &[Grant]) -> Result<()> {
        // SAFETY: the caller keeps this verb's conditions.
        self.around(Verb::SetRights, |driver| unsafe { driver.set_rights(at, bytes, grants) })?;
        self.charge(Verb::SetRights, |track, table| track.opened(at, bytes, grants, table));
        Ok(())
    }
}
