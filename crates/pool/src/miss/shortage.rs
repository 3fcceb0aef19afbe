//! What is tried when no plan is enough: the last resorts, in order, and the report when all have
//! failed. Everything here may be slow; nothing here is a panic.

use crate::clock::Fence;
use crate::error::{Holdings, Shortage};
use crate::heap::Heap;
use crate::heap::extents::Extent;
use crate::heap::inside::Inside;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::miss::candidate::{Wanted, candidates};
use crate::miss::job::{Job, Waits};
use std::sync::Arc;
use stitchpool_driver::DeviceId;

/// How far the last resorts have gone for one request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Resort {
    #[default]
    Nothing,
    /// What the GPU is past has been taken in.
    Retired,
    /// Idle handles of unfitting sizes have been released, and trays that wait for backups.
    Restocked,
    /// The CPU may wait for pending memory.
    Waiting,
    /// Stale mappings that hold memory have been waited for.
    Drained,
    /// So many further devices may be used.
    Spilled(usize),
}

impl Mapper {
    /// Does the next thing that may help. False: there is none left.
    pub(crate) fn resort(&mut self, job: &mut Job<'_>, resort: &mut Resort, waits: &mut Vec<String>) -> bool {
        let fallbacks = job.tenant.key.placement.fallbacks().len();
        *resort = match *resort {
            Resort::Nothing => {
                self.poll_clocks();
                if let Err(error) = self.retire_stale(usize::MAX) {
                    waits.push(error.to_string());
                }
                job.heap.inside.lock().reap();
                Resort::Retired
            }
            Resort::Retired => {
                for device in job.tenant.key.placement.devices() {
                    self.release_stock(Some(device));
                    self.drop_idle_trays(Some(device));
                }
                Resort::Restocked
            }
            Resort::Restocked => {
                job.waits = Waits::Cpu;
                Resort::Waiting
            }
            Resort::Waiting => {
                self.drain_stale(waits);
                Resort::Drained
            }
            Resort::Drained if fallbacks > 0 => Resort::Spilled(1),
            Resort::Spilled(used) if used < fallbacks => Resort::Spilled(used + 1),
            Resort::Drained | Resort::Spilled(_) => return false,
        };
        tracing::debug!(resort = ?*resort, "no plan was enough: a last resort");
        if let Resort::Spilled(used) = *resort {
            job.fallbacks = used;
            job.waits = Waits::gentle(self.settings.stream_waits, &job.tenant.clock);
        }
        true
    }

    /// Asks the GPU how far each stream is.
    pub(crate) fn poll_clocks(&self) {
        for clock in self.clocks.values() {
            if let Err(error) = clock.poll() {
                tracing::debug!(%error, stream = clock.serial(), "a stream could not be asked");
            }
        }
    }

    /// Waits (the CPU) until stale mappings can go whose handles stand nowhere else.
    pub(crate) fn drain_stale(&mut self, waits: &mut Vec<String>) {
        let orphans = self.stale.iter().filter_map(|at| match self.slot_holding(at.0) {
            Some(Slot::Stale { mapping, fences }) if !self.stands_elsewhere(mapping.handle()) => Some(fences.clone()),
            _ => None,
        });
        let fences: Vec<Fence> = orphans.flatten().filter(|fence| !fence.is_passed()).collect();
        for fence in fences {
            if fence.is_passed() {
                continue;
            }
            self.counts.cpu_waits += 1;
            tracing::debug!(stream = fence.clock.serial(), "the CPU waits for stale mappings that hold memory");
            if let Err(error) = fence.clock.finish(fence.epoch, self.settings.wait_max, &self.origin) {
                waits.push(format!("stream {} did not finish: {error}", fence.clock.serial()));
            }
        }
        if let Err(error) = self.retire_stale(usize::MAX) {
            waits.push(error.to_string());
        }
    }

    fn stands_elsewhere(&self, handle: &Arc<stitchpool_chunks::PhysicalHandle>) -> bool {
        self.current_mappings().any(|(_, mapping)| Arc::ptr_eq(mapping.handle(), handle))
    }

    /// What holds a device's memory.
    pub(crate) fn holdings(&self, device: DeviceId, heaps: &[&Heap]) -> Option<Holdings> {
        let budget = self.budgets.get(&device)?;
        let mut holdings = Holdings {
            device,
            limit_bytes: budget.limit_bytes,
            physical_bytes: budget.physical_bytes(),
            live_bytes: 0,
            leased_bytes: 0,
            remote_bytes: 0,
            free_bytes: self.stock.bytes(device),
            pending_bytes: 0,
            kept_bytes: 0,
            stranded_bytes: 0,
            pinned_bytes: 0,
            suspended_bytes: self.suspended_bytes(device),
            backup_bytes: self.tray_bytes(device),
            quarantined_bytes: self.origin.quarantine().physical_bytes(device),
            device_free_bytes: self.device_free_bytes(device),
        };
        for heap in heaps {
            let inside = heap.inside.lock();
            let wanted = Wanted { device, kind: self.settings.kind, taker: None, pending: false };
            let whole_bytes: u64 = candidates(self, &inside, heap.index, &wanted).iter().map(|found| found.bytes).sum();
            let shares = self.shares_on(device, inside.blocks());
            let free_bytes = self.shares_on(device, inside.extents.iter());
            holdings.live_bytes += shares;
            if let Some(tenant) = &inside.tenant {
                let home = tenant.clock.raw().device;
                holdings.remote_bytes += if home == device { 0 } else { shares };
                if tenant.key.exclusive && self.refuge_of(tenant.key.arena).is_some() {
                    holdings.leased_bytes += self.shares_on(device, inside.holds.live());
                }
            }
            holdings.pending_bytes += self.shares_on(device, inside.pending.iter().map(|block| block.extent()));
            holdings.kept_bytes += self.shares_on(device, inside.holds.freed());
            holdings.free_bytes += whole_bytes;
            let pinned_bytes = self.pinned_on(device, &inside);
            holdings.pinned_bytes += pinned_bytes;
            holdings.stranded_bytes += free_bytes.saturating_sub(whole_bytes + pinned_bytes);
        }
        Some(holdings)
    }

    /// Bytes of a device that sleeping slots will need.
    fn suspended_bytes(&self, device: DeviceId) -> u64 {
        let slots = self.chains.values().flat_map(crate::mapper::chain::Chain::slots);
        let of_device = slots.filter(|slot| matches!(slot, Slot::Asleep { device: at, .. } if *at == device));
        of_device.map(Slot::bytes).sum()
    }

    /// What the driver has left on a device. Only asked of devices whose streams use the pool: on any
    /// other the question would make a context, half a gigabyte of its own.
    pub(crate) fn device_free_bytes(&self, device: DeviceId) -> Option<u64> {
        let used = device.is_host() || self.clocks.values().any(|clock| clock.raw().device == device);
        if !used {
            return None;
        }
        self.origin.driver().memory(device).ok().map(|memory| memory.free_bytes)
    }

    /// Whether the figures say that a device may not give so many bytes more. A driver may show less than it
    /// would give: it is asked all the same.
    pub(crate) fn looks_short(&self, device: DeviceId, bytes: u64) -> bool {
        let limited = self.refuse_beyond_limit(device, bytes).is_err();
        limited || self.device_free_bytes(device).is_some_and(|free_bytes| free_bytes < bytes)
    }

    /// How many free bytes of a heap lie on `device` in memory that nobody may take.
    fn pinned_on(&self, device: DeviceId, inside: &Inside) -> u64 {
        match self.pins.is_empty() {
            _ if self.serves_graph(inside) => self.shares_on(device, inside.extents.iter()),
            true => 0,
            false => {
                self.shares_where(device, inside.extents.iter(), |slot| self.pins.touch(slot.at().0, slot.end().0))
            }
        }
    }

    /// How many bytes of these runs lie on `device`.
    fn shares_on(&self, device: DeviceId, runs: impl Iterator<Item = Extent>) -> u64 {
        self.shares_where(device, runs, |_| true)
    }

    fn shares_where(
        &self,
        device: DeviceId,
        runs: impl Iterator<Item = Extent>,
        counts: impl Fn(&Slot) -> bool,
    ) -> u64 {
        let mut bytes = 0;
        for run in runs {
            let Some(chain) = self.chain_holding(run.start) else { continue };
            let first = chain.first_slot_from(stitchpool_driver::Address(run.start + 1)).saturating_sub(1);
            let slots = chain.slots()[first..].iter().take_while(|slot| slot.at().0 < run.end());
            let on_device =
                slots.filter(|slot| counts(slot) && slot.current().is_some_and(|mapping| mapping.device() == device));
            bytes += on_device.map(|slot| slot.end().0.min(run.end()) - slot.at().0.max(run.start)).sum::<u64>();
        }
        bytes
    }

    /// The report of a request that could not be served.
    pub(crate) fn shortage(&self, job: &Job<'_>, heaps: &[&Heap], missing_bytes: u64) -> Shortage {
        let devices = job.tenant.key.placement.devices();
        Shortage {
            asked_bytes: job.bytes(),
            missing_bytes,
            devices: devices.into_iter().filter_map(|device| self.holdings(device, heaps)).collect(),
            refusal: None,
            eviction: None,
            waits: Vec::new(),
            capturing: false,
        }
    }
}
