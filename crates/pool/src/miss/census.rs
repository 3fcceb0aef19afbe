//! Counts what holds a device's memory, for reports and for who must know whether it is short. It changes nothing.

use crate::engine::Engine;
use crate::heap::Heap;
use crate::heap::extents::Extent;
use crate::heap::inside::Inside;
use crate::holdings::Holdings;
use crate::mapper::Mapper;
use crate::mapper::chain::Chain;
use crate::mapper::slot::Slot;
use crate::miss::candidate::{Wanted, candidates};
use stitchpool_driver::{Address, DeviceId};

impl Engine {
    /// What holds the memory of each of these devices that the pool knows.
    pub(crate) fn holdings(&self, mapper: &Mapper, devices: impl IntoIterator<Item = DeviceId>) -> Vec<Holdings> {
        let heaps: Vec<&Heap> = self.registry.heaps().collect();
        devices.into_iter().filter_map(|device| mapper.holdings(device, &heaps)).collect()
    }
}

impl Mapper {
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
        let slots = self.chains.values().flat_map(Chain::slots);
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
            let first = chain.first_slot_from(Address(run.start + 1)).saturating_sub(1);
            let slots = chain.slots()[first..].iter().take_while(|slot| slot.at().0 < run.end());
            let on_device =
                slots.filter(|slot| counts(slot) && slot.current().is_some_and(|mapping| mapping.device() == device));
            bytes += on_device.map(|slot| slot.end().0.min(run.end()) - slot.at().0.max(run.start)).sum::<u64>();
        }
        bytes
    }
}
