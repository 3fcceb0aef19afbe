//! Handles for slots that wake: each has waited in its slot, was idle, or is made. Whoever does not need them
//! after all gives them back. It maps nothing.

use crate::devices::distinct;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::mapper::Mapper;
use crate::mapper::backup::Content;
use crate::mapper::slot::Slot;
use crate::operation::sleeper::Sleeper;
use crate::shortage::Shortage;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stitchpool_chunks::PhysicalHandle;
use stitchpool_driver::{DeviceId, HandleSpec};

/// A handle for a slot, and where it comes from.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) handle: Arc<PhysicalHandle>,
    pub(crate) source: Source,
}

/// Where a handle comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// It waited in the slot.
    Slot,
    Stock,
    Created,
}

/// The handles of one resume, in the order of its slots.
#[derive(Debug, Default)]
pub(crate) struct Supply {
    /// Taken, and not mapped yet.
    taken: VecDeque<Incoming>,
    /// Made so far by device; the budgets count them only when all is done.
    made_bytes: BTreeMap<DeviceId, u64>,
}

impl Supply {
    /// The next handles, which [`Engine::provide`] has made sure are there.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Incoming> {
        self.taken.drain(..count.min(self.taken.len())).collect()
    }
}

impl Incoming {
    /// It stands: what was made is counted.
    pub(crate) fn book(source: Source, mapper: &mut Mapper, device: DeviceId, bytes: u64) {
        if source == Source::Created {
            mapper.count_in(device, bytes);
        }
    }

    /// It is not needed after all. One that was made is released by its drop.
    pub(crate) fn give_back(self, mapper: &mut Mapper) {
        if self.source == Source::Stock {
            mapper.stock.park(self.handle);
        }
    }
}

impl Engine {
    /// Takes handles for all, ahead of time, where the figures say that memory may not do for them: then the
    /// refusal comes before anything is copied, and it is the driver's own.
    pub(crate) fn provide_if_short(
        &self,
        mapper: &mut Mapper,
        sleepers: &[Sleeper],
        supply: &mut Supply,
    ) -> Result<()> {
        let mut missing_bytes: BTreeMap<DeviceId, u64> = BTreeMap::new();
        for sleeper in sleepers.iter().filter(|sleeper| waiting(mapper, sleeper).is_none()) {
            *missing_bytes.entry(sleeper.device).or_default() += sleeper.bytes;
        }
        let short = missing_bytes.iter().any(|(&device, &bytes)| mapper.looks_short(device, bytes));
        if short { self.provide(mapper, sleepers, supply) } else { Ok(()) }
    }

    /// Makes sure that the supply has a handle for each of these, the next sleepers.
    pub(crate) fn provide(&self, mapper: &mut Mapper, sleepers: &[Sleeper], supply: &mut Supply) -> Result<()> {
        for sleeper in sleepers.iter().skip(supply.taken.len()) {
            let made_bytes = supply.made_bytes.entry(sleeper.device).or_default();
            let incoming = self.provide_one(mapper, sleeper, *made_bytes)?;
            if incoming.source == Source::Created {
                *made_bytes += sleeper.bytes;
            }
            supply.taken.push_back(incoming);
        }
        Ok(())
    }

    /// A handle for one slot, of whose device `made_bytes` were made for others already.
    fn provide_one(&self, mapper: &mut Mapper, sleeper: &Sleeper, made_bytes: u64) -> Result<Incoming> {
        if let Some(handle) = waiting(mapper, sleeper) {
            return Ok(Incoming { handle: handle.clone(), source: Source::Slot });
        }
        let &Sleeper { device, bytes, .. } = sleeper;
        let kind = mapper.settings.kind;
        if let Some(handle) = mapper.stock.take(device, kind, bytes) {
            return Ok(Incoming { handle, source: Source::Stock });
        }
        let handle = self.trim_for(mapper, device, |mapper| {
            mapper.refuse_beyond_limit(device, made_bytes + bytes)?;
            Ok(PhysicalHandle::create(&mapper.origin, HandleSpec { device, bytes, kind })?)
        })?;
        Ok(Incoming { handle, source: Source::Created })
    }

    /// Gives back what of a supply was not mapped.
    pub(crate) fn give_back(&self, mapper: &mut Mapper, supply: &mut Supply) {
        supply.taken.drain(..).for_each(|incoming| incoming.give_back(mapper));
    }

    /// Why a resume was refused: out of memory is told as for any request.
    pub(crate) fn resume_refusal(&self, mapper: &Mapper, sleepers: &[Sleeper], supply: &Supply, error: Error) -> Error {
        let refusal = match error {
            error if !error.is_short() => return error,
            Error::Driver(refusal) => Some(refusal),
            _ => None,
        };
        let asked_bytes: u64 = sleepers.iter().map(|sleeper| sleeper.bytes).sum();
        let made_bytes: u64 = supply.made_bytes.values().sum();
        let devices = distinct(sleepers.iter().map(|sleeper| sleeper.device));
        Error::OutOfMemory(Box::new(Shortage {
            asked_bytes,
            missing_bytes: asked_bytes.saturating_sub(made_bytes),
            devices: self.holdings(mapper, devices),
            refusal,
            eviction: None,
            waits: Vec::new(),
            capturing: false,
        }))
    }
}

/// The handle that waits in a slot, if one does.
fn waiting<'a>(mapper: &'a Mapper, sleeper: &Sleeper) -> Option<&'a Arc<PhysicalHandle>> {
    match mapper.slot_holding(sleeper.at.0).and_then(Slot::content) {
        Some(Content::Handle(handle)) => Some(handle),
        _ => None,
    }
}
