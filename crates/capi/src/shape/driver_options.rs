//! Which driver to open, and what the host driver shall look like.

use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::status::Status;
use stitchpool_driver::host::HostDevice;

/// `stitchpool_driver_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CDriverOptions {
    pub struct_size: usize,
    pub kind: i32,
    pub host_devices: u32,
    pub host_capacity_bytes: u64,
    pub host_granule_bytes: u64,
}

// SAFETY: the size, then numbers, without padding.
unsafe impl Record for CDriverOptions {
    const NAME: &'static str = "stitchpool_driver_options";
    const FIRST_BYTES: usize = 32;
}

/// Which driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// CUDA where it is available, else the host driver.
    Auto,
    Cuda,
    Host,
}

/// The same, understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DriverOptions {
    pub(crate) choice: Choice,
    pub(crate) host_devices: usize,
    pub(crate) host_capacity_bytes: u64,
    pub(crate) host_granule_bytes: u64,
}

impl DriverOptions {
    /// What is meant where nothing is said.
    pub(crate) fn default_of(choice: Choice) -> Self {
        let device = HostDevice::default();
        let (host_capacity_bytes, host_granule_bytes) = (device.capacity_bytes, device.granularity_bytes);
        Self { choice, host_devices: 1, host_capacity_bytes, host_granule_bytes }
    }
}

impl CDriverOptions {
    /// What null means.
    pub(crate) const DEFAULT: Self = Self {
        struct_size: size_of::<Self>(),
        kind: 0,
        host_devices: 0,
        host_capacity_bytes: 0,
        host_granule_bytes: 0,
    };

    /// A 0 is the default.
    pub(crate) fn understood(&self) -> Result<DriverOptions> {
        let choice = match self.kind {
            0 => Choice::Auto,
            1 => Choice::Cuda,
            2 => Choice::Host,
            kind => {
                let words = format!("{}.kind is {kind}: 0 is auto, 1 cuda, 2 host", Self::NAME);
                return Err(Refusal::new(Status::InvalidArgument, words));
            }
        };
        let plain = DriverOptions::default_of(choice);
        let or = |value: u64, default: u64| if value == 0 { default } else { value };
        Ok(DriverOptions {
            choice,
            host_devices: self.host_devices.max(1) as usize,
            host_capacity_bytes: or(self.host_capacity_bytes, plain.host_capacity_bytes),
            host_granule_bytes: or(self.host_granule_bytes, plain.host_granule_bytes),
        })
    }
}
