//! The owner of physical memory on one device, without an address.

use crate::{Origin, Quarantined, QuarantinedKind};
use std::sync::Arc;
use stitchpool_driver::{DeviceId, HandleKind, HandleSpec, RawHandle, Result};

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
}

impl Drop for PhysicalHandle {
    fn drop(&mut self) {
        // SAFETY: `raw` was created by this driver, and only this owner, which ends here, names it.
        if let Err(error) = unsafe { self.origin.driver().release(self.raw) } {
            self.origin.quarantine().put(Quarantined {
                kind: QuarantinedKind::Handle,
                device: Some(self.spec.device),
                bytes: self.spec.bytes,
                error,
            });
        }
    }
}
