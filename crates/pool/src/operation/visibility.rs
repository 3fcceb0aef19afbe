//! Whether the driver shows memory that was given back as free. It gives nothing back.

use crate::devices::distinct;
use crate::engine::Engine;
use crate::mapper::Mapper;
use crate::operation::bed::slots_of;
use crate::scope::Ground;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use stitchpool_driver::DeviceId;

/// What was free on devices, as the driver showed it, and what the pool held there.
pub(crate) type Shown = BTreeMap<DeviceId, (u64, u64)>;

/// How long the driver is given to show memory as free.
const VISIBLE_WITHIN: Duration = Duration::from_secs(1);

impl Engine {
    /// What the driver shows as free on the devices of a ground, those where asking makes no context.
    pub(crate) fn shown(&self, mapper: &Mapper, ground: &Ground) -> Shown {
        let devices = distinct(slots_of(mapper, ground).filter_map(|(_, slot)| Some(slot.current()?.device())));
        let free = |device| Some((device, (mapper.device_free_bytes(device)?, mapper.held_bytes(device))));
        devices.into_iter().filter(|device| !device.is_host()).filter_map(free).collect()
    }

    /// Waits, for a second at most, until the driver shows what was given back as free; gives what it does
    /// not show. For what it refused to take back nobody waits.
    pub(crate) fn await_visible(&self, before: &Shown) -> u64 {
        let deadline = Instant::now() + VISIBLE_WITHIN;
        loop {
            let (mut hidden_bytes, mut awaited_bytes) = (0, 0);
            for (&device, &(free_bytes, held_bytes)) in before {
                let released_bytes = held_bytes.saturating_sub(self.mapper.lock().held_bytes(device));
                let shown = self.origin.driver().memory(device).map_or(u64::MAX, |memory| memory.free_bytes);
                let hidden = (free_bytes + released_bytes).saturating_sub(shown);
                hidden_bytes += hidden;
                awaited_bytes += hidden.saturating_sub(self.origin.quarantine().physical_bytes(device));
            }
            if awaited_bytes == 0 || Instant::now() >= deadline {
                return hidden_bytes;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
