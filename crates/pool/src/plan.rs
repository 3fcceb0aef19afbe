//! Where a miss shall get its bytes from: a list of steps and what they cost. It changes nothing.

use crate::candidate::{Candidate, Supply, Wanted, candidates, sort_oldest_last};
use crate::chain::Gap;
use crate::extents::Extents;
use crate::heap::{Heap, Tenant};
use crate::mapper::Mapper;
use crate::registry::Registry;
use crate::unit::{UNIT_BYTES, bytes_of};
use std::collections::BTreeMap;
use stitchpool_chunks::Piece;
use stitchpool_driver::DeviceId;

/// What a miss is about.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) heap: &'a Heap,
    pub(crate) tenant: Tenant,
    pub(crate) units: u32,
    pub(crate) alignment_bytes: u64,
    /// How many of the placement's further devices may be used already.
    pub(crate) fallbacks: usize,
    pub(crate) waits: Waits,
    /// What a device turned out to have at most, where its driver refused.
    pub(crate) ceilings: BTreeMap<DeviceId, u64>,
}

/// Which waits a plan may use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Waits {
    None,
    /// The taker's stream waits for others; the CPU does not.
    Stream,
    /// The CPU waits.
    Cpu,
}

impl Job<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(self.units)
    }

    /// How large a new handle on `device` would be.
    pub(crate) fn handle_bytes(&self, mapper: &Mapper, device: DeviceId) -> u64 {
        let Some(budget) = mapper.budgets.get(&device) else { return UNIT_BYTES };
        let max_bytes = mapper.settings.handle_bytes_max;
        handle_bytes(budget.granule_bytes, budget.physical_bytes(), self.bytes(), max_bytes)
    }
}

/// Where the block will stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In a gap of a chain and the free extents beside it: from `start` on, which is the gap's start or
    /// lies in the extent before it. Of the extent behind the gap it takes `behind_bytes`.
    Gap { chain: u64, gap: Gap, start: u64, behind_bytes: u64 },
    /// In a chain of its own.
    New,
}

/// A gap with what is free beside it, for one job.
#[derive(Clone, Copy, Debug)]
struct Site {
    chain: u64,
    gap: Gap,
    /// Where the block would start.
    start: u64,
    /// How many bytes the gap must get.
    missing_bytes: u64,
    /// How many the block takes of the extent behind the gap; then the gap must be filled exactly.
    behind_bytes: u64,
}

impl Site {
    fn beside(chain: u64, gap: Gap, extents: &Extents, job: &Job<'_>) -> Option<Self> {
        let before = extents.ending_at(gap.start).map_or(gap.start, |extent| extent.start);
        let start = before.next_multiple_of(job.alignment_bytes);
        let end = start + job.bytes();
        if start > gap.start || end <= gap.start {
            return None;
        }
        if end <= gap.end() {
            return Some(Self { chain, gap, start, missing_bytes: end - gap.start, behind_bytes: 0 });
        }
        let behind_bytes = end - gap.end();
        let reaches = extents.starting_at(gap.end()).is_some_and(|behind| behind.bytes() >= behind_bytes);
        reaches.then_some(Self { chain, gap, start, missing_bytes: gap.bytes, behind_bytes })
    }
}

/// One source of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Stock { device: DeviceId, bytes: u64 },
    Create { device: DeviceId, bytes: u64 },
    Steal(Candidate),
}

impl Step {
    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::Stock { bytes, .. } | Self::Create { bytes, .. } => *bytes,
            Self::Steal(candidate) => candidate.bytes,
        }
    }
}

/// The steps for one place, in address order, and what they cost.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) place: Place,
    pub(crate) steps: Vec<Step>,
    pub(crate) cost: Cost,
}

/// What a plan costs; less is better, the first field first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Cost {
    /// Bytes that no source has.
    pub(crate) missing_bytes: u64,
    /// Growth beyond the highest live bytes.
    pub(crate) forced_bytes: u64,
    /// Handles that another stream must be waited for.
    pub(crate) waits: u64,
    /// Driver time, in nanoseconds.
    driver_ns: u64,
}

/// Measured: map and first rights of a handle; create; the first rights on a MiB of fresh memory.
const PLACE_NS: u64 = 27_650;
const CREATE_NS: u64 = 9_000;
const FRESH_NS_PER_MIB: u64 = 2_000;

/// A handle is at most this part of the pool's physical bytes, or of the request, whichever is more.
const PHYSICAL_PART: u64 = 2048;
const REQUEST_PART: u64 = 128;

/// A request of this size is large: a gap must save it at least such a part.
const LARGE_BYTES: u64 = 192 << 20;
const LARGE_SAVING_PART: u64 = 8;

/// Makes the cheapest plan for a job.
pub(crate) struct Planner<'a> {
    mapper: &'a Mapper,
    registry: &'a Registry,
    job: &'a Job<'a>,
    markets: BTreeMap<DeviceId, Market>,
}

/// What the heaps have on one device, found when it is first needed.
#[derive(Clone, Debug, Default)]
struct Market {
    /// What is ready for the taker, by heap.
    ready: BTreeMap<u32, Supply>,
    /// Not ready, or pending.
    waiting: Supply,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(mapper: &'a Mapper, registry: &'a Registry, job: &'a Job<'a>) -> Self {
        Self { mapper, registry, job, markets: BTreeMap::new() }
    }

    /// The cheapest: in the gap where least is missing, or in a new chain.
    pub(crate) fn plan(mut self) -> Result<Plan, stitchpool_chunks::Error> {
        let bridging = self.bridge()?;
        if let Some(plan) = &bridging
            && plan.cost.missing_bytes + plan.cost.forced_bytes + plan.cost.waits == 0
        {
            return Ok(plan.clone());
        }
        let new = self.gather(Place::New, &self.pieces(self.job.bytes())?, false);
        Ok(match bridging {
            Some(plan) if plan.cost <= new.cost => plan,
            _ => new,
        })
    }

    /// The plan that uses what is free beside a gap, where that helps.
    fn bridge(&mut self) -> Result<Option<Plan>, stitchpool_chunks::Error> {
        if self.job.tenant.key.block_bytes.is_some() {
            return Ok(None);
        }
        let Some(site) = self.best_site() else { return Ok(None) };
        let Site { chain, gap, start, missing_bytes, behind_bytes } = site;
        let place = Place::Gap { chain, gap, start, behind_bytes };
        let plan = self.gather(place, &self.pieces(missing_bytes)?, behind_bytes > 0);
        let added_bytes: u64 = plan.steps.iter().map(Step::bytes).sum();
        Ok((added_bytes <= gap.bytes).then_some(plan))
    }

    /// The gap of the heap's chains where least is missing. A large block in a chain of its own gives whole
    /// handles back when it is freed, so a gap must save a good part of it. Where addresses are scarce it
    /// need not save anything: an old gap comes before a new chain.
    fn best_site(&self) -> Option<Site> {
        let core = self.job.heap.core.lock();
        let saves_from = match self.mapper.space.is_roomy(self.job.bytes()) {
            true if self.job.bytes() >= LARGE_BYTES => self.job.bytes() / LARGE_SAVING_PART,
            true => 1,
            false => 0,
        };
        let chains = self.mapper.chains.values().filter(|chain| chain.heap() == self.job.heap.index);
        let sites = chains.flat_map(|chain| {
            let gaps = chain.gaps().into_iter();
            gaps.filter_map(|gap| Site::beside(chain.at().0, gap, &core.extents, self.job))
        });
        let useful = sites.filter(|site| site.missing_bytes + saves_from <= self.job.bytes());
        useful.min_by_key(|site| site.missing_bytes)
    }

    /// The pieces of `bytes`, rounded up to granules, by the heap's placement.
    fn pieces(&self, bytes: u64) -> Result<Vec<Piece>, stitchpool_chunks::Error> {
        let placement = &self.job.tenant.key.placement;
        let granules = placement.devices().into_iter().filter_map(|device| self.mapper.budgets.get(&device));
        let granule_bytes = granules.map(|budget| budget.granule_bytes).max().unwrap_or(UNIT_BYTES);
        placement.pieces(bytes.next_multiple_of(granule_bytes), granule_bytes)
    }

    /// Sources for the pieces. `exact`: they must be filled to the byte.
    fn gather(&mut self, place: Place, pieces: &[Piece], exact: bool) -> Plan {
        let placement = self.job.tenant.key.placement.clone();
        let fallbacks = &placement.fallbacks()[..self.job.fallbacks.min(placement.fallbacks().len())];
        let mut gathering = Gathering {
            job: self.job,
            exact: exact || pieces.len() > 1,
            place,
            physical_bytes: BTreeMap::new(),
            markets: BTreeMap::new(),
            steps: Vec::new(),
            cost: Cost::default(),
        };
        for piece in pieces {
            let mut rest = piece.bytes;
            for device in std::iter::once(&piece.device).chain(fallbacks) {
                if rest > 0 {
                    rest = gathering.take_on(self, *device, rest);
                }
            }
            gathering.cost.missing_bytes += rest;
        }
        Plan { place, steps: gathering.steps, cost: gathering.cost }
    }

    /// What the heaps have on `device`. Streams whose memory is not ready are sealed and asked first,
    /// so that the next miss knows more.
    fn market(&mut self, device: DeviceId) -> &Market {
        let (mapper, job, registry) = (self.mapper, self.job, self.registry);
        self.markets.entry(device).or_insert_with(|| {
            let mut market = Market::default();
            let kind = mapper.settings.kind;
            let wanted = Wanted { device, kind, taker: Some(&job.tenant.clock), pending: job.waits > Waits::None };
            registry.heaps().for_each(|heap| market.add(mapper, heap, job, &wanted));
            market
        })
    }
}

impl Market {
    fn add(&mut self, mapper: &Mapper, heap: &Heap, job: &Job<'_>, wanted: &Wanted<'_>) {
        let mut core = heap.core.lock();
        let Some(tenant) = core.tenant.clone() else { return };
        let foreign_clock = tenant.clock.serial() != job.tenant.clock.serial();
        if foreign_clock && core.log.last_epoch() > tenant.clock.passed() {
            let epoch = core.log.last_epoch();
            drop(core);
            // A refusal leaves the epoch unpassed: the memory is then not ready, which is safe.
            let sealed = if tenant.clock.is_open(epoch) { tenant.clock.seal(&mapper.origin) } else { Ok(()) };
            if let Err(error) = sealed.and_then(|()| tenant.clock.poll()) {
                tracing::debug!(%error, "a stream could not be sealed");
            }
            core = heap.core.lock();
        }
        let mut found = candidates(mapper, &core, heap.index, wanted);
        sort_oldest_last(&core, &mut found);
        for candidate in found {
            match candidate.ready {
                true => self.ready.entry(heap.index).or_default().add(candidate),
                false => self.waiting.add(candidate),
            }
        }
    }

    /// The same without the free extents that the block will stand in.
    fn without(&self, place: Place) -> Self {
        let mut copy = self.clone();
        if let Place::Gap { gap, start, behind_bytes, .. } = place {
            let end = gap.end() + behind_bytes;
            for supply in copy.ready.values_mut().chain([&mut copy.waiting]) {
                supply.retain(|candidate| candidate.at + candidate.bytes <= start || candidate.at >= end);
            }
        }
        copy
    }

    /// Heaps in the order in which they give: the one with most to spare misses it least. (A small heap
    /// that gives first, its own above all, loses what it needs again at once, and streams end up
    /// taking the same handles from each other for ever.)
    fn givers(&self) -> Vec<u32> {
        let mut givers: Vec<(u64, u32)> = self.ready.iter().map(|(&heap, supply)| (supply.bytes(), heap)).collect();
        givers.sort_unstable_by_key(|&(bytes, heap)| (std::cmp::Reverse(bytes), heap));
        givers.into_iter().map(|(_, heap)| heap).collect()
    }
}

/// Steps being gathered for one place.
struct Gathering<'a> {
    job: &'a Job<'a>,
    /// Whether every piece must be filled exactly, because another follows it.
    exact: bool,
    place: Place,
    /// What each device will hold once the steps so far are done.
    physical_bytes: BTreeMap<DeviceId, u64>,
    markets: BTreeMap<DeviceId, Market>,
    steps: Vec<Step>,
    cost: Cost,
}

impl Gathering<'_> {
    /// Takes up to `bytes` on one device, sources in the order of preference; gives what is missing.
    fn take_on(&mut self, planner: &mut Planner<'_>, device: DeviceId, bytes: u64) -> u64 {
        let Some(budget) = planner.mapper.budgets.get(&device) else { return bytes };
        let ceiling = self.job.ceilings.get(&device).copied().unwrap_or(u64::MAX).min(budget.limit_bytes);
        let mut rest = self.take_stock(planner.mapper, device, bytes, false);
        rest = self.create(planner.mapper, device, rest, budget.calm_bytes().min(ceiling), Grain::Policy);
        if rest == 0 {
            return 0;
        }
        let market = planner.market(device);
        if !self.markets.contains_key(&device) {
            self.markets.insert(device, market.without(self.place));
        }
        for giver in self.markets.get(&device).map(Market::givers).unwrap_or_default() {
            rest = self.steal(device, rest, |market| market.ready.get_mut(&giver));
        }
        if self.job.waits > Waits::None && self.markets.get(&device).is_some_and(|market| market.waiting.bytes() > 0) {
            rest = self.create(planner.mapper, device, rest, budget.tolerated_bytes().min(ceiling), Grain::Granule);
            rest = self.steal(device, rest, |market| Some(&mut market.waiting));
        }
        rest = self.create(planner.mapper, device, rest, ceiling, Grain::Policy);
        self.take_stock(planner.mapper, device, rest, true)
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
                handle_bytes(budget.granule_bytes, held, self.job.bytes(), mapper.settings.handle_bytes_max)
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

    fn steal(&mut self, device: DeviceId, bytes: u64, supply: impl Fn(&mut Market) -> Option<&mut Supply>) -> u64 {
        let mut rest = bytes;
        while rest > 0 {
            let supply = self.markets.get_mut(&device).and_then(&supply);
            let picked = supply.and_then(|supply| supply.pick(rest, self.exact));
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

/// The size of new handles: cost goes with their number, waste with their size.
fn handle_bytes(granule_bytes: u64, physical_bytes: u64, request_bytes: u64, max_bytes: u64) -> u64 {
    let wanted = (physical_bytes / PHYSICAL_PART).max(request_bytes / REQUEST_PART);
    let power = if wanted == 0 { 0 } else { 1 << wanted.ilog2() };
    power.clamp(granule_bytes, max_bytes.max(granule_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_grow_with_the_pool_and_the_request() {
        let (mib, gib) = (1 << 20, 1 << 30);
        let cases = [
            (0, 100 * mib, 2 * mib),
            (7 * gib, 512 * mib, 4 * mib),
            (8 * gib, 512 * mib, 4 * mib),
            (8 * gib, mib, 4 * mib),
            (40 * gib, mib, 16 * mib),
            (40 * gib, 4 * gib, 32 * mib),
            (400 * gib, 400 * gib, 64 * mib),
        ];
        for (physical, request, expected) in cases {
            assert_eq!(handle_bytes(2 * mib, physical, request, 64 * mib), expected, "{physical} {request}");
        }
        assert_eq!(handle_bytes(4096, 0, 1, 4096), 4096);
    }
}
