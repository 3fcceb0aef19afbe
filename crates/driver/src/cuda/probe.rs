//! Which kinds of handles a device really grants. The verbs pass a refusal on as it is; falling back
//! is the caller's decision, made by what is found here.

use super::CudaDriver;
use crate::{DeviceId, Driver, ErrorKind, HandleKind, HandleSpec, Result};

/// The kinds that leave the process, the one that reaches farthest first, then the one that does not.
const FARTHEST_FIRST: [HandleKind; 3] = [HandleKind::Fabric, HandleKind::FileDescriptor, HandleKind::Private];

impl CudaDriver {
    /// Whether the device grants handles of this kind to this process: one granule is created and
    /// released. The device's attribute is not asked, because it says yes to fabric handles where
    /// creating one is `NotPermitted`.
    ///
    /// # Errors
    /// Anything but the driver's no: a device without a free granule, for one.
    pub fn probe(&self, device: DeviceId, kind: HandleKind) -> Result<bool> {
        let created =
            self.granularity(device, kind).and_then(|granule| self.create(HandleSpec { device, bytes: granule, kind }));
        match created {
            Ok(handle) => {
                // SAFETY: `handle` was just created, and nobody else knows it.
                unsafe { self.release(handle) }?;
                Ok(true)
            }
            Err(error) if refuses_kind(error.kind) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The kind that reaches farthest of those that the device grants to this process.
    ///
    /// # Errors
    /// As for [`CudaDriver::probe`].
    pub fn farthest_kind(&self, device: DeviceId) -> Result<HandleKind> {
        for kind in FARTHEST_FIRST {
            if self.probe(device, kind)? {
                return Ok(kind);
            }
        }
        Ok(HandleKind::Private)
    }
}

/// Whether this is how a driver says that it has no such kind of handle.
fn refuses_kind(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotPermitted | ErrorKind::NotSupported | ErrorKind::InvalidValue)
}
