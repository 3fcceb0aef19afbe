//! What a miss is about: the request, the heap it missed in, and what may be done for it.

use crate::clock::Clock;
use crate::heap::{Heap, Tenant};
use crate::mapper::Mapper;
use crate::miss::grain::{handle_bytes, renewed_handle_bytes, shared_handle_bytes};
use crate::miss::portion::Portion;
use crate::unit::{UNIT_BYTES, bytes_of};
use std::collections::BTreeMap;
use stitchpool_driver::DeviceId;

/// What a miss is about.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) heap: &'a Heap,
    pub(crate) tenant: Tenant,
    pub(crate) units: u32,
    pub(crate) alignment_bytes: u64,
    /// Iff it is no block that is asked for, but a portion of a growable buffer.
    pub(crate) portion: Option<Portion>,
    /// How many of the placement's further devices may be used already.
    pub(crate) fallbacks: usize,
    pub(crate) waits: Waits,
    /// Iff nothing may be done for it that a capture does not stand: only new memory and idle handles then.
    pub(crate) captured: bool,
    /// Whether handles were released to make room for what cannot be had otherwise: that room is for the rest,
    /// after all that can be taken.
    pub(crate) melted: bool,
    /// Whether small handles were released for it, to be made anew in larger ones.
    pub(crate) renewed: bool,
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

impl Waits {
    /// What a request may cause as a rule: `stream_waits` is the setting. A stream that a capture keeps quiet
    /// is not made to wait.
    pub(crate) fn gentle(stream_waits: bool, taker: &Clock) -> Self {
        if stream_waits && !taker.is_quiet() { Self::Stream } else { Self::None }
    }
}

impl Job<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(self.units)
    }

    /// Keeps the request to what an open capture stands, if it is served for one.
    pub(crate) fn restrain(&mut self, mapper: &Mapper) {
        if !mapper.captures.restrain(&self.tenant.clock, self.tenant.key.arena) {
            return;
        }
        self.captured = true;
        self.waits = Waits::None;
        self.fallbacks = self.tenant.key.placement.fallbacks().len();
    }

    /// Takes the block from the heap's free bytes, if they have it by now.
    pub(crate) fn take_free(&self, mapper: &Mapper) -> Option<u64> {
        if self.portion.is_some() {
            return None;
        }
        if self.tenant.key.exclusive {
            return self.take_chain(mapper);
        }
        self.heap.take(&mut self.heap.inside.lock(), self.units, self.alignment_bytes)
    }

    /// The devices that its memory may lie on.
    pub(crate) fn devices(&self, mapper: &Mapper) -> Vec<DeviceId> {
        let mut devices = self.tenant.key.placement.devices();
        let chain = self.portion.and_then(|portion| mapper.chains.get(&portion.chain));
        for &sent in chain.into_iter().flat_map(|chain| chain.places.asked()) {
            if !devices.contains(&sent) {
                devices.push(sent);
            }
        }
        devices
    }

    /// How large a new handle would be on a device that holds so much.
    pub(crate) fn grain_bytes(&self, granule_bytes: u64, physical_bytes: u64, max_bytes: u64) -> u64 {
        match self.portion {
            Some(portion) => portion.step_bytes,
            None if self.renewed => renewed_handle_bytes(granule_bytes, physical_bytes, self.bytes(), max_bytes),
            None if self.tenant.key.exclusive => handle_bytes(granule_bytes, physical_bytes, self.bytes(), max_bytes),
            None => shared_handle_bytes(granule_bytes, physical_bytes, self.bytes(), max_bytes),
        }
    }

    /// How large a handle would be that is made in place of small ones on `device`.
    pub(crate) fn renewed_bytes(&self, mapper: &Mapper, device: DeviceId) -> u64 {
        let Some(budget) = mapper.budgets.get(&device) else { return UNIT_BYTES };
        let max_bytes = mapper.settings.handle_bytes_max;
        match self.portion {
            Some(portion) => portion.step_bytes,
            None => renewed_handle_bytes(budget.granule_bytes, budget.physical_bytes(), self.bytes(), max_bytes),
        }
    }
}
