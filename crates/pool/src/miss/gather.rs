//! Gathers the steps of one plan, source after source in the order of preference.

use crate::mapper::Mapper;
use crate::miss::job::{Job, Waits};
use crate::miss::market::{Market, Markets};
use crate::miss::plan::{Cost, Place, Plan, Step};
use crate::miss::portion::Lack;
use crate::miss::victims::Victims;
use std::collections::BTreeMap;
use stitchpool_chunks::Piece;
use stitchpool_driver::DeviceId;

/// Measured: map and first rights of a handle; create; the first rights on a MiB of fresh memory.
const PLACE_NS: u64 = 27_650;
const CREATE_NS: u64 = 9_000;
const FRESH_NS_PER_MIB: u64 = 2_000;

/// Steps being gathered for one place.
pub(crate) struct Gathering<'a> {
    job: &'a Job<'a>,
    /// Whether every piece must be filled exactly, because another follows it.
    exact: bool,
    place: Place,
    /// What each device will hold once the steps so far are done.
    physical_bytes: BTreeMap<DeviceId, u64>,
    markets: BTreeMap<DeviceId, Market>,
    steps: Vec<Step>,
    cost: Cost,
    missing: BTreeMap<DeviceId, u64>,
}

impl<'a> Gathering<'a> {
    /// Nothing yet. `exact`: what is asked for must be filled to the byte.
    pub(crate) fn new(job: &'a Job<'a>, place: Place, exact: bool) -> Self {
        let (physical_bytes, markets) = (BTreeMap::new(), BTreeMap::new());
        let (steps, cost, missing) = (Vec::new(), Cost::default(), BTreeMap::new());
        Self { job, exact, place, physical_bytes, markets, steps, cost, missing }
    }

    /// Takes a piece, on its device and then on the fallbacks; what is missing counts as cost.
    pub(crate) fn take(&mut self, markets: &mut Markets<'_>, piece: Piece, fallbacks: &[DeviceId]) {
        let mut rest = piece.bytes;
        for device in std::iter::once(&piece.device).chain(fallbacks) {
            if rest > 0 {
                rest = self.take_on(markets, *device, rest);
            }
        }
        if rest > 0 {
            self.cost.missing_bytes += rest;
            *self.missing.entry(piece.device).or_default() += rest;
        }
    }

    /// The plan, with its cost.
    pub(crate) fn finish(self) -> Plan {
        let Self { place, steps, cost, exact, missing, .. } = self;
        Plan { place, steps, cost, exact, missing, lack: Lack::default() }
    }

    /// Takes up to `bytes` on one device, sources in the order of preference; gives what is missing.
    fn take_on(&mut self, markets: &mut Markets<'_>, device: DeviceId, bytes: u64) -> u64 {
        let mapper = markets.mapper;
        let Some(budget) = mapper.budgets.get(&device) else { return bytes };
        let ceiling = self.job.ceilings.get(&device).copied().unwrap_or(u64::MAX).min(budget.limit_bytes);
        // Room that was made by releasing handles is for what cannot be taken.
        let early_bytes = |bytes: u64| if self.job.melted { 0 } else { bytes.min(ceiling) };
        let (calm_bytes, tolerated_bytes) = (early_bytes(budget.calm_bytes()), early_bytes(budget.tolerated_bytes()));
        let mut rest = self.take_stock(mapper, device, bytes, false);
        rest = self.create(mapper, device, rest, calm_bytes, Grain::Policy);
        if rest == 0 {
            return 0;
        }
        if !self.markets.contains_key(&device) {
            self.markets.insert(device, markets.on(device).without(self.place));
        }
        for giver in self.markets.get(&device).map(Market::givers).unwrap_or_default() {
            rest = self.steal(device, rest, |market| market.ready.get_mut(&giver));
        }
        if self.job.waits > Waits::None && self.markets.get(&device).is_some_and(|market| market.waiting.bytes() > 0) {
            rest = self.create(mapper, device, rest, tolerated_bytes, Grain::Granule);
            rest = self.steal(device, rest, |market| Some(&mut market.waiting));
        }
        rest = self.create(mapper, device, rest, ceiling, Grain::Policy);
        self.take_stock(mapper, device, rest, true)
    }

    /// Idle handles, none larger than what is needed; with `larger` also the smallest that is.
    fn take_stock(&mut self, mapper: &Mapper, device: DeviceId, bytes: u64, larger: bool) -> u64 {
        let mut rest = bytes;
        let kind = mapper.settings.kind;
        let used = |steps: &[Step], size: u64| {
            steps
                .iter()
                .filter(|step| matches!(step, Step::Stock { device: on, bytes } if *on == device && *bytes == size))
                .count()
        };
        if larger {
            let fitting =
                mapper.stock.sizes(device, kind).find(|&(size, count)| size >= rest && used(&self.steps, size) < count);
            if let (Some((size, _)), true) = (fitting, rest > 0 && !self.exact) {
                self.push(Step::Stock { device, bytes: size }, PLACE_NS);
                return 0;
            }
            return rest;
        }
        for (size, count) in mapper.stock.sizes(device, kind).rev() {
            let wanted = usize::try_from(rest / size).unwrap_or(usize::MAX).min(count - used(&self.steps, size));
            for _ in 0..wanted {
                self.push(Step::Stock { device, bytes: size }, PLACE_NS);
                rest -= size;
            }
        }
        rest
    }

    /// New handles, as far as the device then holds at most `until_bytes`.
    fn create(&mut self, mapper: &Mapper, device: DeviceId, bytes: u64, until_bytes: u64, grain: Grain) -> u64 {
        let Some(budget) = mapper.budgets.get(&device) else { return bytes };
        let held = *self.physical_bytes.entry(device).or_insert(budget.physical_bytes());
        let room_bytes = until_bytes.saturating_sub(held);
        let mut rest = bytes.min(room_bytes - room_bytes % budget.granule_bytes);
        let left = bytes - rest;
        let handle_bytes = match grain {
            Grain::Policy if !self.job.ceilings.contains_key(&device) => {
                self.job.grain_bytes(budget.granule_bytes, held, mapper.settings.handle_bytes_max)
            }
            // Where the driver has refused, what it has left is had in granules, if at all.
            _ => budget.granule_bytes,
        };
        let forced_bytes = (held + rest).saturating_sub(budget.calm_bytes().max(held));
        self.cost.forced_bytes += forced_bytes;
        self.physical_bytes.insert(device, held + rest);
        while rest > 0 {
            let bytes = if rest >= handle_bytes { handle_bytes } else { rest };
            self.push(Step::Create { device, bytes }, CREATE_NS + PLACE_NS + (bytes >> 20) * FRESH_NS_PER_MIB);
            rest -= bytes;
        }
        left
    }

    fn steal(&mut self, device: DeviceId, bytes: u64, among: impl Fn(&mut Market) -> Option<&mut Victims>) -> u64 {
        let mut rest = bytes;
        while rest > 0 {
            let victims = self.markets.get_mut(&device).and_then(&among);
            let picked = victims.and_then(|victims| victims.pick(rest, self.exact));
            let Some(candidate) = picked else { break };
            self.cost.waits += u64::from(!candidate.ready);
            self.push(Step::Steal(candidate), PLACE_NS);
            rest = rest.saturating_sub(candidate.bytes);
        }
        rest
    }

    fn push(&mut self, step: Step, driver_ns: u64) {
        self.steps.push(step);
        self.cost.driver_ns += driver_ns;
    }
}

/// How large new handles are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Grain {
    Granule,
    Policy,
}
