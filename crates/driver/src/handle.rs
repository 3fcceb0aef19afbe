//! Physical handles as the driver names them.

use crate::DeviceId;

/// A physical handle by the driver's value. Its owner type is `PhysicalHandle` in `stitchpool-chunks`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RawHandle(pub u64);

/// How a handle's memory may leave the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum HandleKind {
    /// It may not.
    #[default]
    Private,
    /// As a file descriptor, within this host.
    FileDescriptor,
    /// As a fabric handle, across hosts, where the platform grants it.
    Fabric,
}

/// What to create: memory of one device, whole granules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HandleSpec {
    /// Where the memory shall lie.
    pub device: DeviceId,
    /// Its size: a multiple of the device's granularity, not 0.
    pub bytes: u64,
    /// How it may be exported.
    pub kind: HandleKind,
}
