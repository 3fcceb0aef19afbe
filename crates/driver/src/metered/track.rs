//! What a price depends on: the sizes of handles and mappings, and whether memory was opened before.

use crate::{Address, CostTable, DeviceId, Grant, RawHandle, Rights};
use std::collections::BTreeMap;

/// Handles and mappings as their successful calls tell of them.
#[derive(Debug, Default)]
pub(super) struct Track {
    handles: BTreeMap<RawHandle, Made>,
    mappings: BTreeMap<Address, Mapped>,
}

#[derive(Clone, Copy, Debug)]
struct Made {
    bytes: u64,
    /// No device ever had rights on it.
    is_fresh: bool,
}

#[derive(Debug)]
struct Mapped {
    bytes: u64,
    handle: RawHandle,
    rights: BTreeMap<DeviceId, Rights>,
}

impl Track {
    pub(super) fn created(&mut self, handle: RawHandle, bytes: u64) {
        self.handles.insert(handle, Made { bytes, is_fresh: true });
    }

    pub(super) fn imported(&mut self, handle: RawHandle, bytes: u64) {
        self.handles.insert(handle, Made { bytes, is_fresh: false });
    }

    /// Forgets a handle and says its size.
    pub(super) fn released(&mut self, handle: RawHandle) -> u64 {
        self.handles.remove(&handle).map_or(0, |made| made.bytes)
    }

    pub(super) fn mapped(&mut self, at: Address, bytes: u64, handle: RawHandle) {
        self.mappings.insert(at, Mapped { bytes, handle, rights: BTreeMap::new() });
    }

    /// Forgets a run of mappings and says what unmapping them cost, in microseconds.
    pub(super) fn unmapped(&mut self, at: Address, bytes: u64, table: &CostTable) -> f64 {
        let gone = self.mappings.extract_if(at..at + bytes, |_, _| true);
        gone.map(|(_, mapped)| table.handle(mapped.bytes).unmap_us).sum()
    }

    /// Notes the new rights of a run and says what giving them cost, in microseconds: once for each
    /// mapping, however many devices are named.
    pub(super) fn opened(&mut self, at: Address, bytes: u64, grants: &[Grant], table: &CostTable) -> f64 {
        let mut cost_us = 0.0;
        for (_, mapped) in self.mappings.range_mut(at..at + bytes) {
            let mut is_changed = false;
            for grant in grants {
                is_changed |= mapped.rights.insert(grant.device, grant.rights).unwrap_or_default() != grant.rights;
            }
            // A released handle's mapping was as a rule opened before; its freshness is no longer known.
            let made = self.handles.get_mut(&mapped.handle);
            let was_fresh = made.is_some_and(|made| std::mem::replace(&mut made.is_fresh, false));
            let cost = table.handle(mapped.bytes);
            cost_us += match (is_changed, was_fresh) {
                (_, true) => cost.first_rights_us,
                (true, false) => cost.rights_us,
                (false, false) => table.unchanged_rights_us,
            };
        }
        cost_us
    }
}
