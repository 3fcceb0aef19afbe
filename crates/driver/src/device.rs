//! Devices: the places where memory can lie, and how they reach each other.

use std::fmt;

/// One GPU by the driver's ordinal, or the host as a place for memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

impl DeviceId {
    /// Host memory, reached by every device over its bus.
    pub const HOST: Self = Self(u16::MAX);

    /// Whether this is the host and not a GPU.
    #[must_use]
    pub const fn is_host(self) -> bool {
        self.0 == Self::HOST.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() { f.write_str("host") } else { write!(f, "device {}", self.0) }
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A device's identity across processes, where ordinals differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uuid(pub [u8; 16]);

/// What does not change about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The driver's ordinal.
    pub id: DeviceId,
    /// The identity that holds across processes.
    pub uuid: Uuid,
    /// The product's name.
    pub name: String,
    /// All of its memory.
    pub total_bytes: u64,
}

/// What a device's memory looks like now, other processes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Not yet taken by anybody.
    pub free_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

/// How one device reaches the memory of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// It cannot.
    None,
    /// Over the bus.
    Bus,
    /// Over a direct link between the two.
    Direct,
    /// It is its own memory.
    Own,
}
