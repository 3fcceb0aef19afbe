//! What streams are known to be ordered after what of others. It asks no driver.

use crate::clock::{Clock, Fence};
use std::collections::BTreeMap;

/// For a stream, the newest epoch of another that it is ordered after.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Keys are (later stream, earlier stream) by serial.
    after: BTreeMap<(u32, u32), u64>,
}

impl Order {
    /// Work of `later` from now on runs after everything of `earlier` up to `epoch`.
    pub(crate) fn raise(&mut self, later: &Clock, earlier: &Clock, epoch: u64) {
        let known = self.after.entry((later.serial(), earlier.serial())).or_default();
        *known = epoch.max(*known);
    }

    /// The newest epoch of `earlier` that new work of `later` is behind: known by order, or passed.
    pub(crate) fn behind(&self, later: &Clock, earlier: &Clock) -> u64 {
        let ordered = self.after.get(&(later.serial(), earlier.serial())).copied().unwrap_or(0);
        ordered.max(earlier.passed())
    }

    /// Whether new work of `later` is behind this fence anyway.
    pub(crate) fn covers(&self, later: &Clock, fence: &Fence) -> bool {
        later.serial() == fence.clock.serial() || fence.epoch <= self.behind(later, &fence.clock)
    }

    /// Forgets a stream.
    pub(crate) fn forget(&mut self, serial: u32) {
        self.after.retain(|&(later, earlier), _| later != serial && earlier != serial);
    }
}
