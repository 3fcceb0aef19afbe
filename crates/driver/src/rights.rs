//! What a device may do with a mapping.

use crate::DeviceId;

/// What a device may do with a mapping. A new mapping has [`Rights::None`] for every device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Rights {
    /// Nothing: an access is an illegal address.
    #[default]
    None,
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
}

/// Rights given to one device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Grant {
    /// Who may use the mapping. [`DeviceId::HOST`] means the CPU, for host memory.
    pub device: DeviceId,
    /// What it may do.
    pub rights: Rights,
}
