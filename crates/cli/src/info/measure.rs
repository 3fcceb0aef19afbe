//! What each call of the driver costs here, beside what it cost on the card that was measured.

use crate::session::Session;
use anyhow::{Result, bail};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use stitchpool_chunks::{Event, Origin, PhysicalHandle, Reservation, Vacancy, open};
use stitchpool_driver::{CostTable, DeviceId, Grant, HandleKind, HandleSpec, Metered, RawStream, Rights, Verb};

/// Costs of device 0, in microseconds: medians.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// What goes with the size of a handle.
    pub by_size: Vec<SizeCost>,
    /// What does not.
    pub fixed: Vec<FixedCost>,
}

/// Costs for one size of handle.
#[derive(Debug, Serialize)]
pub struct SizeCost {
    /// The size.
    pub handle_bytes: u64,
    /// Here.
    pub here: HandleCost,
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
    /// Here, in microseconds.
    pub here_us: f64,
    /// On an H200, in microseconds.
    pub h200_us: f64,
}

const MIB: u64 = 1 << 20;
const SIZES_MIB: [u64; 6] = [2, 16, 32, 64, 256, 1024];
const ROUNDS: usize = 15;
const EVENT_ROUNDS: usize = 200;
const WAIT_MAX: Duration = Duration::from_secs(10);

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
        let by_size = sizes.map(|bytes| bench.size(bytes)).collect::<Result<_>>()?;
        Ok(Self { by_size, fixed: bench.fixed(granule_bytes)? })
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
        Ok(SizeCost { handle_bytes: bytes, here: HandleCost::median(&rounds), h200 })
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

    fn fixed(&self, granule_bytes: u64) -> Result<Vec<FixedCost>> {
        // The default stream; nothing is queued on it.
        let stream = RawStream { device: self.device, value: 0 };
        const VERBS: [Verb; 7] =
            [Verb::Reserve, Verb::Unreserve, Verb::Record, Verb::Wait, Verb::IsDone, Verb::Finish, Verb::Forget];
        let mut rounds: [Vec<f64>; VERBS.len()] = Default::default();
        for _ in 0..EVENT_ROUNDS {
            let before = self.metered.spent();
            drop(Reservation::reserve(&self.origin, granule_bytes, 0)?);
            let event = Event::record(&self.origin, stream)?;
            event.hold_back(stream)?;
            event.is_done()?;
            event.finish(WAIT_MAX)?;
            drop(event);
            let spent = self.metered.spent().since(&before);
            for (round, verb) in rounds.iter_mut().zip(VERBS) {
                round.push(spent.of(verb).wall_us);
            }
        }
        let table = CostTable::h200();
        let costs = rounds.into_iter().zip(VERBS);
        Ok(costs
            .map(|(round, verb)| FixedCost { verb: verb.word(), here_us: median(round), h200_us: table.fixed_us(verb) })
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
    fn median(rounds: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| median(rounds.iter().map(field).collect());
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
}

/// The one in the middle; 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(vec![]), 0.0);
    }
}
