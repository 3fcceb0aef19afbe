//! Chooses the plan of a miss: in a gap of an old chain, or in a chain of its own.

use crate::error::Result;
use crate::mapper::Mapper;
use crate::miss::gather::Gathering;
use crate::miss::job::{Job, Waits};
use crate::miss::market::Markets;
use crate::miss::plan::{Place, Plan, Step};
use crate::miss::portion::Portion;
use crate::miss::site::Site;
use crate::registry::Registry;
use stitchpool_chunks::Piece;

/// A request of this size is large: a gap must save it at least such a part.
const LARGE_BYTES: u64 = 192 << 20;
const LARGE_SAVING_PART: u64 = 8;

/// Makes the cheapest plan for a job.
pub(crate) struct Planner<'a> {
    markets: Markets<'a>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(mapper: &'a Mapper, registry: &'a Registry, job: &'a Job<'a>) -> Self {
        Self { markets: Markets::new(mapper, registry, job) }
    }

    /// The cheapest: in the gap where least is missing, or in a new chain.
    pub(crate) fn plan(mut self) -> Result<Plan> {
        if let Some(portion) = self.markets.job.portion {
            return self.plan_portion(portion);
        }
        let bridging = match self.bridge()? {
            Some(plan) if plan.cost.is_calm() => return Ok(plan),
            bridging => bridging,
        };
        let new = self.gather(Place::New, &self.pieces(self.markets.job.bytes())?, false);
        Ok(match bridging {
            Some(plan) if plan.cost <= new.cost => plan,
            _ => new,
        })
    }

    /// The plan for a portion of a growable buffer.
    fn plan_portion(&mut self, portion: Portion) -> Result<Plan> {
        let (mapper, job) = (self.markets.mapper, self.markets.job);
        let lack = portion.lack(mapper, &job.heap.inside.lock())?;
        let pieces = portion.pieces(&lack.gaps, &job.tenant.key.placement, mapper)?;
        let (start, end) = portion.span(&lack);
        let mut plan = self.gather(Place::Portion { start, end }, &pieces, true);
        let pending_bytes = if job.waits == Waits::None { lack.pending_bytes } else { 0 };
        plan.cost.missing_bytes += lack.absent_bytes + pending_bytes;
        Ok(Plan { lack, ..plan })
    }

    /// The plan that uses what is free beside a gap, where that helps.
    fn bridge(&mut self) -> Result<Option<Plan>> {
        let key = &self.markets.job.tenant.key;
        if key.block_bytes.is_some() || key.exclusive {
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
        let inside = self.markets.job.heap.inside.lock();
        let saves_from = match self.markets.mapper.space.is_roomy(self.markets.job.bytes()) {
            true if self.markets.job.bytes() >= LARGE_BYTES => self.markets.job.bytes() / LARGE_SAVING_PART,
            true => 1,
            false => 0,
        };
        let chains = self
            .markets
            .mapper
            .chains
            .values()
            .filter(|chain| chain.heap() == self.markets.job.heap.index && !chain.is_kept());
        let sites = chains.flat_map(|chain| {
            let gaps = chain.gaps().into_iter();
            gaps.filter_map(|gap| Site::beside(chain.at().0, gap, &inside.extents, self.markets.job))
        });
        let useful = sites.filter(|site| site.missing_bytes + saves_from <= self.markets.job.bytes());
        useful.min_by_key(|site| site.missing_bytes)
    }

    /// The pieces of `bytes`, rounded up to granules, by the heap's placement.
    fn pieces(&self, bytes: u64) -> Result<Vec<Piece>> {
        let placement = &self.markets.job.tenant.key.placement;
        let granule_bytes = self.markets.mapper.granule_bytes();
        Ok(placement.pieces(bytes.next_multiple_of(granule_bytes), granule_bytes)?)
    }

    /// Sources for the pieces. `exact`: they must be filled to the byte.
    fn gather(&mut self, place: Place, pieces: &[Piece], exact: bool) -> Plan {
        let placement = self.markets.job.tenant.key.placement.clone();
        let fallbacks = &placement.fallbacks()[..self.markets.job.fallbacks.min(placement.fallbacks().len())];
        let mut gathering =
            Gathering::new(self.markets.job, place, exact || pieces.len() > 1 || self.markets.job.tenant.key.exclusive);
        for &piece in pieces {
            gathering.take(&mut self.markets, piece, fallbacks);
        }
        gathering.finish()
    }
}
