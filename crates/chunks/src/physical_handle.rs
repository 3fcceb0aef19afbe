//! The owner of physical memory on one device, without an address.

use crate::{Origin, Quarantined, QuarantinedKind};
use std::sync::Arc;
use stitchpool_driver::{DeviceId, Error, HandleKind, HandleSpec, RawHandle, Result, Shareable};

/// Physical memory of one device: the atom of map, unmap, rights and sharing.
///
/// Shared by its mappings through `Arc`; released when the last mapping and the last holder are gone,
/// so a released handle cannot be named.
#[derive(Debug)]
pub struct PhysicalHandle {
    origin: Arc<Origin>,
    raw: RawHandle,
    spec: HandleSpec,
}

impl PhysicalHandle {
    /// Creates physical memory; its content is undefined.
    ///
    /// # Errors
    /// The driver's, unchanged.
    pub fn create(origin: &Arc<Origin>, spec: HandleSpec) -> Result<Arc<Self>> {
        let raw = origin.driver().create(spec)?;
        tracing::trace!(device = %spec.device, bytes = spec.bytes, "created a handle");
        Ok(Arc::new(Self { origin: origin.clone(), raw, spec }))
    }

    /// Takes a handle for memory that another owner exported, here or in another process. The memory is
    /// that owner's as well: it lives until both are gone.
    ///
    /// # Errors
    /// The driver's, unchanged.
    pub fn import(origin: &Arc<Origin>, shareable: &Shareable, spec: HandleSpec) -> Result<Arc<Self>> {
        let raw = origin.driver().import(shareable, spec)?;
        tracing::trace!(device = %spec.device, bytes = spec.bytes, "imported a handle");
        Ok(Arc::new(Self { origin: origin.clone(), raw, spec }))
    }

    /// What stands for it outside this process, as the kind that it was created as.
    ///
    /// # Errors
    /// The driver's, unchanged: a private handle does not leave.
    pub fn export(&self) -> Result<Shareable> {
        // SAFETY: this owner keeps `raw` alive over the call.
        unsafe { self.origin.driver().export(self.raw, self.spec.kind) }
    }

    /// Where the memory lies.
    #[must_use]
    pub const fn device(&self) -> DeviceId {
        self.spec.device
    }

    /// How much it is.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.spec.bytes
    }

    /// How it may be exported.
    #[must_use]
    pub const fn kind(&self) -> HandleKind {
        self.spec.kind
    }

    /// The driver's value, for lists of segments.
    #[must_use]
    pub const fn raw(&self) -> RawHandle {
        self.raw
    }

    /// Keeps it out of use for good, because the place it was taken from would not have it back.
    /// Where it stands elsewhere too, nothing is lost.
    pub(crate) fn give_up(self: Arc<Self>, error: Error) {
        if Arc::strong_count(&self) == 1 {
            self.quarantine(error);
            std::mem::forget(self);
        }
    }

    fn quarantine(&self, error: Error) {
        let (device, bytes) = (Some(self.spec.device), self.spec.bytes);
        self.origin.quarantine().put(Quarantined { kind: QuarantinedKind::Handle, device, bytes, error });
    }
}

impl Drop for PhysicalHandle {
    fn drop(&mut self) {
        // SAFETY: `raw` was created or imported by this driver, and only this owner, which ends here, names it.
        if let Err(error) = unsafe { self.origin.driver().release(self.raw) } {
            self.quarantine(error);
        }
    }
}
