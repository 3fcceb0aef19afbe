//! Trays being filled, one after the other, for one suspend. It copies nothing.

use crate::devices::distinct;
use crate::engine::Engine;
use crate::error::Result;
use crate::mapper::Mapper;
use crate::mapper::backup::{Deposit, Store};
use crate::mapper::tray::Tray;
use crate::operation::bed::Bed;
use std::sync::Arc;
use stitchpool_driver::DeviceId;

/// Trays being filled.
#[derive(Debug)]
pub(crate) struct Rack {
    place: DeviceId,
    users: Vec<DeviceId>,
    trays: Vec<Arc<Tray>>,
    /// Of the last tray.
    used_bytes: u64,
    /// What is still to be stowed.
    ahead_bytes: u64,
}

impl Rack {
    /// A rack for the content of these beds.
    pub(crate) fn new(place: DeviceId, beds: &[Bed]) -> Self {
        let users = distinct(beds.iter().map(|bed| bed.stream.device));
        let ahead_bytes = beds.iter().flat_map(|bed| &bed.runs).map(|(start, end)| end - start).sum();
        Self { place, users, trays: Vec::new(), used_bytes: 0, ahead_bytes }
    }

    /// Whether the figures say that there is not enough memory for what is still to be stowed.
    pub(crate) fn looks_short(&self, mapper: &Mapper) -> bool {
        mapper.looks_short(self.place, self.ahead_bytes)
    }

    /// Gives the next bed's content places in trays.
    pub(crate) fn stow(&mut self, engine: &Engine, mapper: &mut Mapper, bed: &Bed) -> Result<Vec<Deposit>> {
        let mut parts = Vec::new();
        for &(start, end) in &bed.runs {
            let mut at = start;
            while at < end {
                let room_bytes = self.trays.last().map_or(0, |tray| tray.bytes() - self.used_bytes);
                if room_bytes == 0 {
                    let tray = engine.take_tray(mapper, self.place, self.ahead_bytes, &self.users)?;
                    self.trays.push(Arc::new(tray));
                    self.used_bytes = 0;
                    continue;
                }
                let Some(tray) = self.trays.last() else { continue };
                let bytes = room_bytes.min(end - at);
                parts.push(Deposit { at, bytes, store: Store::Tray(tray.clone(), self.used_bytes) });
                self.used_bytes += bytes;
                self.ahead_bytes -= bytes;
                at += bytes;
            }
        }
        Ok(parts)
    }

    /// All trays that were taken.
    pub(crate) fn into_trays(self) -> Vec<Arc<Tray>> {
        self.trays
    }
}
