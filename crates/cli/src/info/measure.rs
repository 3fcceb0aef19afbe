//! What each call of the driver costs here, and how fast memory is, beside the card that was measured.

use super::bandwidth::{self, Bandwidth};
use super::spread::{Difference, Spread};
use crate::bytes::show;
use crate::patch::Strand;
use crate::session::Session;
use anyhow::{Result, bail};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use stitchpool_chunks::{Event, Origin, PhysicalHandle, Reservation, Vacancy, open, stream_identity};
use stitchpool_driver::{CostTable, DeviceId, Grant, HandleKind, HandleSpec, Metered, Rights, Verb};

/// Costs and bandwidth of device 0.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// What goes with the size of a handle.
    pub by_size: Vec<SizeCost>,
    /// What does not.
    pub fixed: Vec<FixedCost>,
    /// How fast memory is.
    pub bandwidth: Vec<Bandwidth>,
    /// What differs from an H200 by more than noise. (Of the host driver everything does.)
    pub differs: Vec<Difference>,
}

/// Costs for one size of handle.
#[derive(Debug, Serialize)]
pub struct SizeCost {
    /// The size.
    pub handle_bytes: u64,
    /// Here: medians.
    pub here: HandleCost,
    /// How far the samples lie apart: half of them within so many microseconds.
    pub noise: HandleCost,
    /// On an H200, driver 580.159.
    pub h200: HandleCost,
}

/// Costs of a handle's verbs, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct HandleCost {
    /// `create`.
    pub create_us: f64,
    /// `map`.
    pub map_us: f64,
    /// `set_rights` over memory that had none before.
    pub first_rights_us: f64,
    /// `set_rights` later.
    pub rights_us: f64,
    /// `set_rights` that changes nothing.
    pub unchanged_rights_us: f64,
    /// `unmap`.
    pub unmap_us: f64,
    /// `release`.
    pub release_us: f64,
}

/// The cost of a verb that no handle's size changes.
#[derive(Debug, Serialize)]
pub struct FixedCost {
    /// The verb.
    pub verb: &'static str,
    /// Here, in microseconds: the median.
    pub here_us: f64,
    /// How far the samples lie apart.
    pub noise_us: f64,
    /// On an H200, in microseconds.
    pub h200_us: f64,
}

const MIB: u64 = 1 << 20;
const SIZES_MIB: [u64; 6] = [2, 16, 32, 64, 256, 1024];
const ROUNDS: usize = 15;
const EVENT_ROUNDS: usize = 200;
const WAIT_MAX: Duration = Duration::from_secs(10);
/// What the clock itself costs, and less than which no difference is worth a line, in microseconds.
const CLOCK_US: f64 = 0.2;

/// Calls a driver and tells what each call cost.
struct Bench {
    metered: Arc<Metered>,
    origin: Arc<Origin>,
    device: DeviceId,
}

impl Measured {
    /// Measures.
    pub fn of(session: &Session) -> Result<Self> {
        let devices = session.driver.devices()?;
        let Some(device) = devices.first().map(|device| device.id) else { bail!("there is no device to measure") };
        let metered = Metered::timed(session.driver.clone());
        let bench = Bench { origin: Origin::new(metered.clone()), metered, device };
        let granule_bytes = session.driver.granularity(device, HandleKind::Private)?;
        let room_bytes = session.driver.memory(device)?.free_bytes / 2;
        let sizes = SIZES_MIB.iter().map(|mib| mib * MIB);
        let sizes = sizes.filter(|bytes| bytes.is_multiple_of(granule_bytes) && *bytes <= room_bytes);
        let by_size = sizes.map(|bytes| bench.size(bytes)).collect::<Result<Vec<_>>>()?;
        let fixed = bench.fixed(session, granule_bytes)?;
        let bandwidth = bandwidth::all(session, &devices)?;
        let costs = by_size.iter().flat_map(SizeCost::against).chain(fixed.iter().filter_map(FixedCost::against));
        let speeds = bandwidth.iter().filter_map(|row| {
            row.read().against(&format!("read: {}, {}", row.path, row.made_of), row.h200_read_gbps, "GB/s", 0.0)
        });
        let differs = costs.chain(speeds).collect();
        Ok(Self { by_size, fixed, bandwidth, differs })
    }
}

impl SizeCost {
    fn against(&self) -> Vec<Difference> {
        let size = show(self.handle_bytes);
        let noise = self.noise.fields();
        let rows = self.here.fields().into_iter().zip(noise).zip(self.h200.fields());
        rows.filter_map(|(((verb, median), (_, noise)), (_, h200))| {
            Spread { median, noise }.against(&format!("{verb} of {size}"), h200, "us", CLOCK_US)
        })
        .collect()
    }
}

impl FixedCost {
    fn against(&self) -> Option<Difference> {
        Spread { median: self.here_us, noise: self.noise_us }.against(self.verb, self.h200_us, "us", CLOCK_US)
    }
}

impl Bench {
    fn size(&self, bytes: u64) -> Result<SizeCost> {
        let mut vacancy = Reservation::reserve(&self.origin, bytes, 0)?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let (cost, back) = self.round(vacancy, bytes)?;
            rounds.push(cost);
            vacancy = back;
        }
        let table = CostTable::h200();
        let row = table.handle(bytes);
        let h200 = HandleCost {
            create_us: row.create_us,
            map_us: row.map_us,
            first_rights_us: row.first_rights_us,
            rights_us: row.rights_us,
            unchanged_rights_us: table.unchanged_rights_us,
            unmap_us: row.unmap_us,
            release_us: row.release_us,
        };
        let here = HandleCost::of(&rounds, |spread| spread.median);
        Ok(SizeCost { handle_bytes: bytes, here, noise: HandleCost::of(&rounds, |spread| spread.noise), h200 })
    }

    /// The life of one handle, in a vacancy of its size.
    fn round(&self, vacancy: Vacancy, bytes: u64) -> Result<(HandleCost, Vacancy)> {
        let grants = [Grant { device: self.device, rights: Rights::ReadWrite }];
        let spec = HandleSpec { device: self.device, bytes, kind: HandleKind::Private };
        let mut cost = HandleCost::default();
        let handle = self.time(Verb::Create, &mut cost.create_us, || PhysicalHandle::create(&self.origin, spec))?;
        let map = |vacancy: Vacancy, handle| vacancy.map(handle).map_err(|(error, _)| error);
        let mapping = [self.time(Verb::Map, &mut cost.map_us, || map(vacancy, handle))?];
        self.time(Verb::SetRights, &mut cost.first_rights_us, || open(&mapping, &grants))?;
        self.time(Verb::SetRights, &mut cost.unchanged_rights_us, || open(&mapping, &grants))?;
        let [mapping] = mapping;
        let unmap = |mapping: stitchpool_chunks::Mapping| mapping.unmap().map_err(|(error, _)| error);
        let (vacancy, handle) = self.time(Verb::Unmap, &mut cost.unmap_us, || unmap(mapping))?;
        let mapping = [map(vacancy, handle)?];
        self.time(Verb::SetRights, &mut cost.rights_us, || open(&mapping, &grants))?;
        let [mapping] = mapping;
        let (vacancy, handle) = unmap(mapping)?;
        self.time(Verb::Release, &mut cost.release_us, || {
            drop(handle);
            Ok(())
        })?;
        Ok((cost, vacancy))
    }

    fn fixed(&self, session: &Session, granule_bytes: u64) -> Result<Vec<FixedCost>> {
        // Nothing is queued on it.
        let strand = Strand::open(session, self.device)?;
        let stream = strand.raw();
        const VERBS: [Verb; 9] = [
            Verb::Reserve,
            Verb::Unreserve,
            Verb::Record,
            Verb::Wait,
            Verb::IsDone,
            Verb::Finish,
            Verb::Forget,
            Verb::CaptureOf,
            Verb::StreamIdentity,
        ];
        let mut rounds: [Vec<f64>; VERBS.len()] = Default::default();
        for _ in 0..EVENT_ROUNDS {
            let before = self.metered.spent();
            drop(Reservation::reserve(&self.origin, granule_bytes, 0)?);
            let event = Event::record(&self.origin, stream)?;
            event.hold_back(stream)?;
            event.is_done()?;
            event.finish(WAIT_MAX)?;
            stream_identity(&self.origin, stream)?;
            drop(event);
            let spent = self.metered.spent().since(&before);
            for (round, verb) in rounds.iter_mut().zip(VERBS) {
                let of = spent.of(verb);
                round.push(of.wall_us / of.calls.max(1) as f64);
            }
        }
        let table = CostTable::h200();
        let costs = rounds.into_iter().zip(VERBS);
        Ok(costs
            .map(|(round, verb)| {
                let Spread { median, noise } = Spread::of(round);
                FixedCost { verb: verb.word(), here_us: median, noise_us: noise, h200_us: table.fixed_us(verb) }
            })
            .collect())
    }

    /// Does something that makes one call of `verb`, and puts its wall clock into `cost_us`.
    fn time<T>(
        &self,
        verb: Verb,
        cost_us: &mut f64,
        call: impl FnOnce() -> stitchpool_driver::Result<T>,
    ) -> stitchpool_driver::Result<T> {
        let before = self.metered.spent();
        let result = call();
        *cost_us = self.metered.spent().since(&before).of(verb).wall_us;
        result
    }
}

impl HandleCost {
    /// One figure of each verb's samples.
    fn of(rounds: &[Self], figure: fn(Spread) -> f64) -> Self {
        let of = |field: fn(&Self) -> f64| figure(Spread::of(rounds.iter().map(field).collect()));
        Self {
            create_us: of(|cost| cost.create_us),
            map_us: of(|cost| cost.map_us),
            first_rights_us: of(|cost| cost.first_rights_us),
            rights_us: of(|cost| cost.rights_us),
            unchanged_rights_us: of(|cost| cost.unchanged_rights_us),
            unmap_us: of(|cost| cost.unmap_us),
            release_us: of(|cost| cost.release_us),
        }
    }

    const fn fields(&self) -> [(&'static str, f64); 7] {
        [
            ("create", self.create_us),
            ("map", self.map_us),
            ("first rights", self.first_rights_us),
            ("later rights", self.rights_us),
            ("unchanged rights", self.unchanged_rights_us),
            ("unmap", self.unmap_us),
            ("release", self.release_us),
        ]
    }
}
