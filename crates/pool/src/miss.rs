//! Serves a request that found no free extent: plan, carry out, and if nothing is enough, the last
//! resorts.

pub(crate) mod candidate;
pub(crate) mod census;
pub(crate) mod clearing;
pub(crate) mod exclusive;
pub(crate) mod fill;
pub(crate) mod gather;
pub(crate) mod grain;
pub(crate) mod job;
pub(crate) mod layout;
pub(crate) mod market;
pub(crate) mod melt;
pub(crate) mod plan;
pub(crate) mod planner;
pub(crate) mod portion;
pub(crate) mod renew;
pub(crate) mod resort;
pub(crate) mod site;
pub(crate) mod stitch;
pub(crate) mod victims;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::{Heap, Tenant};
use crate::mapper::Mapper;
use crate::miss::job::{Job, Waits};
use crate::miss::plan::{Plan, Step};
use crate::miss::planner::Planner;
use crate::miss::resort::Resort;
use crate::miss::stitch::{Stitch, Stitched};
use crate::shortage::Shortage;
use crate::unit::UNIT_BYTES;
use std::collections::BTreeMap;
use stitchpool_chunks::Placement;
use stitchpool_driver::{Address, DeviceId, Error as Refusal, ErrorKind, Verb};

/// How often a miss plans anew, at most: each time something has changed.
const ATTEMPTS_MAX: usize = 256;

/// So many stale mappings may stand before a miss takes down first those whose fences are past.
const STALE_MAX: usize = 4096;

/// What has been tried for one miss.
#[derive(Default)]
struct Tried {
    resort: Resort,
    /// Whether small handles were looked for that could be renewed.
    renewed: bool,
    /// The driver's last refusal for want of memory.
    refusal: Option<Refusal>,
    /// Waits that did not end in time.
    waits: Vec<String>,
}

/// How a miss goes on.
enum Next {
    /// The block stands at this address.
    Served(u64),
    /// Something has changed: a new plan.
    Plan,
    Refuse,
}

impl Engine {
    /// What a request that missed is about.
    pub(crate) fn job<'a>(&self, heap: &'a Heap, tenant: Tenant, units: u32, alignment_bytes: u64) -> Job<'a> {
        Job {
            heap,
            units,
            alignment_bytes,
            portion: None,
            fallbacks: 0,
            waits: Waits::gentle(self.settings.stream_waits, &tenant.clock),
            captured: false,
            melted: false,
            renewed: false,
            ceilings: BTreeMap::new(),
            tenant,
        }
    }

    /// Serves a miss.
    pub(crate) fn serve(&self, mut job: Job<'_>) -> Result<u64> {
        let span = tracing::debug_span!("miss", bytes = job.bytes(), heap = job.heap.index);
        let _entered = span.enter();
        let mut mapper = self.mapper.lock();
        // A capture that the driver has ended without a word is in nobody's way.
        self.end_abandoned(&mut mapper);
        let serial = job.tenant.key.serial;
        if !job.heap.inside.lock().serves(serial) {
            return Err(mapper.refusal(job.heap, serial));
        }
        // Rights may have been set since the request came.
        if let Some(tenant) = job.heap.inside.lock().tenant.clone() {
            job.tenant = tenant;
        }
        job.restrain(&mapper);
        if mapper.stale.len() >= STALE_MAX && !job.captured {
            mapper.poll_clocks();
            mapper.retire_stale(usize::MAX)?;
        }
        let (mut tried, mut missing_bytes) = (Tried::default(), 0);
        for _ in 0..ATTEMPTS_MAX {
            // Another thread may have freed, or brought, what is needed.
            if let Some(address) = job.take_free(&mapper) {
                self.note_use(&mapper, Address(address));
                return Ok(address);
            }
            self.clear_portion(&mut mapper, &job)?;
            self.note_live(&mut mapper, Some(&job));
            let plan = Planner::new(&mapper, &self.registry, &job).plan()?;
            missing_bytes = plan.cost.missing_bytes;
            tracing::debug!(%plan, missing_bytes, "planned");
            let next = match missing_bytes {
                0 => self.carry_out(&mut mapper, &mut job, &plan, &mut tried)?,
                _ => self.look_further(&mut mapper, &mut job, &plan, &mut tried),
            };
            match next {
                Next::Served(address) => return Ok(address),
                Next::Plan => {}
                Next::Refuse => break,
            }
        }
        // A plan that was enough and could not be carried out has brought nothing.
        let missing_bytes = if missing_bytes == 0 { job.bytes() } else { missing_bytes.min(job.bytes()) };
        Err(self.shortage(&mapper, &job, missing_bytes, tried))
    }

    /// Carries out a plan that is enough.
    fn carry_out(&self, mapper: &mut Mapper, job: &mut Job<'_>, plan: &Plan, tried: &mut Tried) -> Result<Next> {
        if !tried.renewed {
            tried.renewed = true;
            job.renewed = self.renew(mapper, job, plan);
            if job.renewed {
                return Ok(Next::Plan);
            }
        }
        let (error, left_bytes) = match Stitch::new(mapper, &self.registry, job).carry_out(plan) {
            Stitched::Block(address) => {
                self.note_moves(mapper, job, plan);
                self.note_use(mapper, Address(address));
                self.set_watched(mapper);
                return Ok(Next::Served(address));
            }
            Stitched::Overtaken => return Ok(Next::Plan),
            Stitched::Refused(error, left_bytes) => (error, left_bytes),
        };
        match error.kind {
            ErrorKind::OutOfMemory => {
                lower_ceiling(mapper, job, error.device, left_bytes);
                tried.refusal = Some(error);
                Ok(Next::Plan)
            }
            ErrorKind::Timeout => {
                tried.waits.push(error.to_string());
                Ok(Next::Refuse)
            }
            // The stream, or one it would wait for, is being captured, or is not there any more: no wait, then.
            kind if job.waits > Waits::None && (kind == ErrorKind::Capture || error.verb == Verb::StreamIdentity) => {
                job.waits = Waits::None;
                Ok(Next::Plan)
            }
            _ => Err(error.into()),
        }
    }

    /// No plan is enough: does the next thing that may help.
    fn look_further(&self, mapper: &mut Mapper, job: &mut Job<'_>, plan: &Plan, tried: &mut Tried) -> Next {
        if job.captured {
            return Next::Refuse;
        }
        if tried.resort >= Resort::Drained && self.melt(mapper, job, plan, &mut tried.waits) {
            job.melted = true;
            return Next::Plan;
        }
        if tried.resort == Resort::Nothing {
            // Of what was freed asleep the backups are still there.
            self.forget_freed(mapper);
        }
        if mapper.resort(job, &mut tried.resort, &mut tried.waits) { Next::Plan } else { Next::Refuse }
    }

    /// Why the request cannot be served, and what holds the rest.
    fn shortage(&self, mapper: &Mapper, job: &Job<'_>, missing_bytes: u64, tried: Tried) -> Error {
        tracing::debug!(missing_bytes, "nothing was enough");
        Error::OutOfMemory(Box::new(Shortage {
            asked_bytes: job.bytes(),
            missing_bytes,
            devices: self.holdings(mapper, job.devices(mapper)),
            refusal: tried.refusal,
            eviction: None,
            waits: tried.waits,
            capturing: job.captured,
        }))
    }

    /// Brings the budgets up to date with live bytes, those of a request under way included.
    pub(crate) fn note_live(&self, mapper: &mut Mapper, job: Option<&Job<'_>>) {
        let now_us = self.origin.driver().now_us();
        let decay_us = self.settings.decay_us();
        for (device, (live_bytes, peak_bytes)) in self.live_by_device(mapper, job) {
            if let Some(budget) = mapper.budgets.get_mut(&device) {
                budget.note_live(peak_bytes, now_us, decay_us);
                budget.note_live(live_bytes, now_us, decay_us);
            }
        }
    }

    /// Tells the budgets whether a miss has moved handles.
    fn note_moves(&self, mapper: &mut Mapper, job: &Job<'_>, plan: &Plan) {
        let moved = plan.steps.iter().any(|step| matches!(step, Step::Steal(_)));
        let allocs = self.registry.heaps().map(|heap| heap.inside.lock().allocs()).sum();
        for device in job.devices(mapper) {
            if let Some(budget) = mapper.budgets.get_mut(&device) {
                budget.slack.note(allocs, budget.live_peak_bytes(), moved);
            }
        }
    }

    /// For each device, live bytes with the request's, and an estimate of their highest value since
    /// the last miss: exact if only one heap was busy, never above the truth by more than what other
    /// heaps freed meanwhile.
    fn live_by_device(&self, mapper: &Mapper, job: Option<&Job<'_>>) -> BTreeMap<DeviceId, (u64, u64)> {
        let mut shares: BTreeMap<DeviceId, (u64, u64)> = BTreeMap::new();
        for heap in self.registry.heaps() {
            let peak_bytes = heap.take_live_peak_bytes();
            let mut live_bytes = heap.awake_bytes();
            let rise_bytes = peak_bytes - live_bytes;
            let placement = {
                let inside = heap.inside.lock();
                let Some(tenant) = &inside.tenant else { continue };
                // A graph uses all of its arena, whatever is free there for the next one.
                if mapper.serves_graph(&inside) {
                    live_bytes += inside.extents.free_units() * UNIT_BYTES;
                }
                tenant.key.placement.clone()
            };
            let requested_bytes = job.filter(|job| job.heap.index == heap.index).map_or(0, Job::bytes);
            let devices = sharers(&placement);
            let part = devices.len().max(1) as u64;
            for device in devices {
                let (live, rise) = shares.entry(device).or_default();
                *live += (live_bytes + requested_bytes) / part;
                *rise = (*rise).max(rise_bytes / part);
            }
        }
        let requested = job.map_or_else(Vec::new, |job| sharers(&job.tenant.key.placement));
        let part_bytes = job.map_or(0, Job::bytes) / requested.len().max(1) as u64;
        for (device, (live, rise)) in &mut shares {
            *rise += live.saturating_sub(if requested.contains(device) { part_bytes } else { 0 });
        }
        shares
    }
}

/// The devices that a heap's live bytes are counted on: where a placement spills, its home.
fn sharers(placement: &Placement) -> Vec<DeviceId> {
    match placement {
        Placement::Home(_) | Placement::Spill(_) => placement.home().into_iter().collect(),
        _ => placement.devices(),
    }
}

/// The driver has less than the limit: the next plan creates no more than it has now, in granules. `left_bytes`: so
/// much at most, as far as it has told by giving and refusing.
fn lower_ceiling(mapper: &Mapper, job: &mut Job<'_>, device: Option<DeviceId>, left_bytes: Option<u64>) {
    let devices = device.map_or_else(|| job.devices(mapper), |device| vec![device]);
    for device in devices {
        let held_bytes = mapper.held_bytes(device);
        // A driver that says it has the bytes and still refuses is taken at what it gave.
        let room_bytes = match (job.ceilings.get(&device), left_bytes) {
            (None, _) => mapper.device_free_bytes(device).or(left_bytes).unwrap_or(job.bytes() / 2),
            (Some(_), Some(left_bytes)) => left_bytes,
            (Some(ceiling), None) => ceiling.saturating_sub(held_bytes) / 2,
        };
        tracing::debug!(%device, held_bytes, room_bytes, "the driver has less than the limit");
        job.ceilings.insert(device, held_bytes + room_bytes);
    }
}
