//! What a host driver shall look like, as the command line says: another machine, to be tried here.

use crate::bytes;
use clap::Args;
use stitchpool_driver::host::{HostConfig, HostDevice, Peers};

/// Options that shape the host driver.
#[derive(Debug, Args)]
pub struct HostShape {
    /// Devices of the host driver.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=63))]
    pub devices: Option<u16>,
    /// Memory of each of its devices, as 8GiB.
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    pub capacity: Option<u64>,
    /// Its granularity, as 64KiB: a power of two.
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    pub granule: Option<u64>,
    /// No device of it reaches another.
    #[arg(long)]
    pub no_peers: bool,
    /// File descriptors that its exported handles may hold.
    #[arg(long, value_name = "N")]
    pub descriptors: Option<u64>,
}

impl HostShape {
    /// Whether nothing was said.
    pub const fn is_plain(&self) -> bool {
        self.devices.is_none()
            && self.capacity.is_none()
            && self.granule.is_none()
            && !self.no_peers
            && self.descriptors.is_none()
    }

    /// The driver's settings; what was not said is as on the card that was measured.
    pub fn config(&self) -> HostConfig {
        let plain = HostConfig::default();
        let shape = HostDevice::default();
        let granularity_bytes = self.granule.unwrap_or(shape.granularity_bytes);
        let shape = HostDevice { capacity_bytes: self.capacity.unwrap_or(shape.capacity_bytes), granularity_bytes };
        HostConfig {
            devices: vec![shape; usize::from(self.devices.unwrap_or(1))],
            host_memory: HostDevice { granularity_bytes, ..plain.host_memory },
            peers: if self.no_peers { Peers::None } else { plain.peers.clone() },
            descriptor_limit: self.descriptors.unwrap_or(plain.descriptor_limit),
            ..plain
        }
    }
}
