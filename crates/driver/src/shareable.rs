//! What stands for a physical handle outside the process that has it.

use crate::HandleKind;
use std::fmt;
use std::os::fd::OwnedFd;

/// A physical handle on its way to another process. It keeps the memory alive while it is a descriptor;
/// a fabric handle is a name, and keeps nothing alive.
#[derive(Debug)]
pub enum Shareable {
    /// Travels over a Unix socket, within this host.
    Descriptor(OwnedFd),
    /// Travels as bytes, as far as the fabric reaches.
    Fabric(FabricHandle),
}

/// The bytes of a fabric handle, which only the driver understands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FabricHandle(pub [u8; Self::BYTES]);

impl FabricHandle {
    /// How many bytes it has.
    pub const BYTES: usize = 64;
}

impl Shareable {
    /// The kind of handle that leaves its process in this form.
    #[must_use]
    pub const fn kind(&self) -> HandleKind {
        match self {
            Self::Descriptor(_) => HandleKind::FileDescriptor,
            Self::Fabric(_) => HandleKind::Fabric,
        }
    }
}

impl fmt::Debug for FabricHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FabricHandle(..)")
    }
}
