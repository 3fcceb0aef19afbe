//! Idle physical handles kept for reuse, by device, kind and size. It creates and releases nothing.

use crate::PhysicalHandle;
use std::collections::BTreeMap;
use std::sync::Arc;
use stitchpool_driver::{DeviceId, HandleKind};

type Shelf = (DeviceId, HandleKind);

/// Idle handles that no mapping names.
#[derive(Debug, Default)]
pub struct Stock {
    /// A size is present iff a handle of it is.
    shelves: BTreeMap<Shelf, BTreeMap<u64, Vec<Arc<PhysicalHandle>>>>,
}

impl Stock {
    /// Puts a handle in. The caller knows that nothing maps it.
    pub fn park(&mut self, handle: Arc<PhysicalHandle>) {
        let shelf = self.shelves.entry((handle.device(), handle.kind())).or_default();
        shelf.entry(handle.bytes()).or_default().push(handle);
    }

    /// Takes the largest handle of at most `bytes`.
    pub fn take_at_most(&mut self, device: DeviceId, kind: HandleKind, bytes: u64) -> Option<Arc<PhysicalHandle>> {
        let shelf = self.shelves.get_mut(&(device, kind))?;
        let size = *shelf.range(..=bytes).next_back()?.0;
        let handles = shelf.get_mut(&size)?;
        let handle = handles.pop();
        if handles.is_empty() {
            shelf.remove(&size);
        }
        handle
    }

    /// Takes a handle of exactly `bytes`.
    pub fn take(&mut self, device: DeviceId, kind: HandleKind, bytes: u64) -> Option<Arc<PhysicalHandle>> {
        let there = self.shelves.get(&(device, kind))?.contains_key(&bytes);
        if there { self.take_at_most(device, kind, bytes) } else { None }
    }

    /// Takes every handle of `device`, or of all devices.
    pub fn take_all(&mut self, device: Option<DeviceId>) -> Vec<Arc<PhysicalHandle>> {
        let mut taken = Vec::new();
        self.shelves.retain(|(at, _), sizes| {
            let wanted = device.is_none_or(|device| device == *at);
            if wanted {
                taken.extend(std::mem::take(sizes).into_values().flatten());
            }
            !wanted
        });
        taken
    }

    /// The sizes of the idle handles of `device` and `kind`, smallest first, each with its count.
    pub fn sizes(&self, device: DeviceId, kind: HandleKind) -> impl DoubleEndedIterator<Item = (u64, usize)> + '_ {
        self.shelves.get(&(device, kind)).into_iter().flatten().map(|(&bytes, handles)| (bytes, handles.len()))
    }

    /// Every idle handle, by device, kind and size.
    pub fn handles(&self) -> impl Iterator<Item = &Arc<PhysicalHandle>> {
        self.shelves.values().flat_map(|sizes| sizes.values().flatten())
    }

    /// Idle bytes of `device`.
    #[must_use]
    pub fn bytes(&self, device: DeviceId) -> u64 {
        let of_device = self.shelves.iter().filter(|((at, _), _)| *at == device);
        of_device.flat_map(|(_, sizes)| sizes).map(|(bytes, handles)| bytes * handles.len() as u64).sum()
    }

    /// How many idle handles there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shelves.values().flatten().map(|(_, handles)| handles.len()).sum()
    }
}
