//! Serves a request that found no free extent: plan, carry out, and if nothing is enough, the last
//! resorts.

pub(crate) mod candidate;
pub(crate) mod exclusive;
pub(crate) mod fill;
pub(crate) mod gather;
pub(crate) mod job;
pub(crate) mod market;
pub(crate) mod melt;
pub(crate) mod plan;
pub(crate) mod planner;
pub(crate) mod portion;
pub(crate) mod renew;
pub(crate) mod shortage;
pub(crate) mod site;
pub(crate) mod stitch;

use crate::engine::Engine;
use crate::error::{Error, Result, Shortage};
use crate::heap::{Heap, Tenant};
use crate::mapper::Mapper;
use crate::miss::job::{Job, Waits};
use crate::miss::plan::{Plan, Step};
use crate::miss::planner::Planner;
use crate::miss::shortage::Resort;
use crate::miss::stitch::{Stitch, Stitched};
use crate::unit::UNIT_BYTES;
use std::collections::BTreeMap;
use stitchpool_chunks::Placement;
use stitchpool_driver::{Address, DeviceId, ErrorKind, Verb};

/// How often a miss plans anew, at most: each time something has changed.
const ATTEMPTS_MAX: usize = 256;

/// So many stale mappings may stand before a miss takes down first those whose fences are past.
const STALE_MAX: usize = 4096;

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
            ceilings: BTreeMap::new(),
            tenant,
        }
    }

    /// Serves a miss.
    pub(crate) fn serve(&self, mut job: Job<'_>) -> Result<u64> {
        let span = tracing::debug_span!("miss", bytes = job.bytes(), heap = job.heap.index);
        let _entered = span.enter();
        let mut mapper = self.mapper.lock();
        let serial = job.tenant.key.serial;
        if !job.heap.inside.lock().serves(serial) {
            let what = mapper.arenas.get(job.tenant.key.arena)?.title();
            let gone = !job.heap.inside.lock().belongs_to(serial);
            return Err(if gone { Error::UnknownStream { serial } } else { Error::Asleep { what } });
        }
        // Rights may have been set since the request came.
        if let Some(tenant) = job.heap.inside.lock().tenant.clone() {
            job.tenant = tenant;
        }
        self.restrain(&mut mapper, &mut job);
        let (mut resort, mut refusal, mut waits) = (Resort::default(), None, Vec::new());
        let mut missing_bytes = job.bytes();
        let mut renewed = false;
        if mapper.stale.len() >= STALE_MAX && !job.captured {
            mapper.poll_clocks();
            mapper.retire_stale(usize::MAX)?;
        }
        for _ in 0..ATTEMPTS_MAX {
            // Another thread may have freed, or brought, what is needed.
            if let Some(address) = job.take_free(&mapper) {
                self.note_use(&mapper, Address(address));
                return Ok(address);
            }
            if let Some(portion) = &job.portion {
                mapper.clear_stale(portion)?;
            }
            self.note_live(&mut mapper, Some(&job));
            let plan = Planner::new(&mapper, &self.registry, &job).plan()?;
            missing_bytes = plan.cost.missing_bytes;
            tracing::debug!(%plan, missing_bytes, "planned");
            if missing_bytes == 0 && !renewed {
                renewed = true;
                if self.renew(&mut mapper, &job, &plan) {
                    continue;
                }
            }
            if missing_bytes == 0 {
                let stitched = Stitch::new(&mut mapper, &self.registry, &job).carry_out(&plan);
                match stitched {
                    Stitched::Block(address) => {
                        self.note_moves(&mut mapper, &job, &plan);
                        self.note_use(&mapper, Address(address));
                        self.set_watched(&mapper);
                        return Ok(address);
                    }
                    Stitched::Overtaken => continue,
                    Stitched::Refused(error) if error.kind == ErrorKind::OutOfMemory => {
                        lower_ceiling(&mapper, &mut job, error.device);
                        refusal = Some(error);
                        continue;
                    }
                    Stitched::Refused(error) if error.kind == ErrorKind::Timeout => {
                        waits.push(error.to_string());
                        missing_bytes = job.bytes();
                        break;
                    }
                    // The stream, or one it would wait for, is being captured, or is not there any more: no
                    // wait, then.
                    Stitched::Refused(error)
                        if job.waits > Waits::None
                            && (error.kind == ErrorKind::Capture || error.verb == Verb::StreamIdentity) =>
                    {
                        job.waits = Waits::None;
                        continue;
                    }
                    Stitched::Refused(error) => return Err(error.into()),
                }
            }
            if job.captured {
                break;
            }
            if resort >= Resort::Drained && self.melt(&mut mapper, &job, &plan, &mut waits) {
                job.melted = true;
                continue;
            }
            if !mapper.resort(&mut job, &mut resort, &mut waits) {
                break;
            }
        }
        let heaps: Vec<&Heap> = self.registry.heaps().collect();
        let missing_bytes = missing_bytes.min(job.bytes());
        tracing::debug!(missing_bytes, "nothing was enough");
        let capturing = job.captured;
        let shortage = Shortage { refusal, waits, capturing, ..mapper.shortage(&job, &heaps, missing_bytes) };
        Err(Error::OutOfMemory(Box::new(shortage)))
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
        for device in job.tenant.key.placement.devices() {
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

/// The driver has less than the limit: the next plan creates no more than it has now, in granules.
fn lower_ceiling(mapper: &Mapper, job: &mut Job<'_>, device: Option<DeviceId>) {
    let devices = device.map_or_else(|| job.tenant.key.placement.devices(), |device| vec![device]);
    for device in devices {
        let held_bytes = mapper.held_bytes(device);
        // A driver that says it has the bytes and still refuses is asked for half, and half again.
        let room_bytes = match job.ceilings.get(&device) {
            None => mapper.device_free_bytes(device).unwrap_or(job.bytes() / 2),
            Some(ceiling) => ceiling.saturating_sub(held_bytes) / 2,
        };
        tracing::debug!(%device, held_bytes, room_bytes, "the driver has less than the limit");
        job.ceilings.insert(device, held_bytes + room_bytes);
    }
}
