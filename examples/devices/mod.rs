//! Devices for an example: GPUs where there are enough that reach each other, else devices of the host driver.

use std::sync::Arc;
use stitchpool::driver::cuda::CudaDriver;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{DeviceId, Driver, Kernels, Link, Result};

/// What an example runs on.
pub(crate) struct Devices {
    pub(crate) driver: Arc<dyn Driver>,
    /// Work for streams of the same driver.
    pub(crate) kernels: Arc<dyn Kernels>,
}

impl Devices {
    /// So many devices that reach each other.
    pub(crate) fn open(count: u16) -> Result<Self> {
        if let Ok(cuda) = CudaDriver::open()
            && all_reach(&*cuda, count)?
        {
            return Ok(Self { driver: cuda.clone(), kernels: cuda });
        }
        let device = HostDevice { capacity_bytes: 1 << 30, granularity_bytes: 2 << 20 };
        let config = HostConfig { devices: vec![device; usize::from(count)], ..HostConfig::default() };
        let host = HostDriver::new(config)?;
        Ok(Self { driver: host.clone(), kernels: host })
    }

    /// What the work that has run found, in words; an error if any of it was wrong.
    pub(crate) fn verdict(&self) -> std::result::Result<String, Box<dyn std::error::Error>> {
        let tally = self.kernels.tally()?;
        if tally.wrong_bytes > 0 || !tally.faults.is_empty() {
            return Err(format!("{tally:?}").into());
        }
        Ok(format!("{} bytes were checked on {} devices, all right", tally.checked_bytes, self.driver.name()))
    }
}

fn all_reach(driver: &dyn Driver, count: u16) -> Result<bool> {
    let found = driver.devices()?.len();
    for from in (0..count).map(DeviceId) {
        for to in (0..count).map(DeviceId) {
            if found < usize::from(count) || driver.link(from, to)? == Link::None {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
