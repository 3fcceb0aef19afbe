//! A driver that was opened for C.

use crate::refusal::{Refusal, Result};
use crate::shape::{CDriverInfo, Choice, DriverOptions};
use crate::status::Status;
use crate::table::Table;
use std::sync::Arc;
use stitchpool_driver::cuda::CudaDriver;
use stitchpool_driver::host::{Clock, HostConfig, HostDevice, HostDriver};
use stitchpool_driver::{DeviceId, DeviceInfo, Driver, Kernels};

/// All drivers that are open.
pub(crate) static DRIVERS: Table<OpenDriver> = Table::new("driver", 1);

/// A driver, and what makes streams on it.
#[derive(Clone)]
pub struct OpenDriver {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// What makes streams on it.
    pub streams: Arc<dyn Kernels>,
}

impl std::fmt::Debug for OpenDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenDriver({})", self.driver.name())
    }
}

impl OpenDriver {
    /// Opens a driver; where `Auto` had to take the host driver, also says why.
    pub(crate) fn open(options: &DriverOptions) -> Result<(Self, Option<String>)> {
        match options.choice {
            Choice::Cuda => Ok((Self::cuda()?, None)),
            Choice::Host => Ok((Self::host(options)?, None)),
            Choice::Auto => match Self::cuda() {
                Ok(cuda) => Ok((cuda, None)),
                Err(refusal) if refusal.status == Status::Unavailable => {
                    let words = format!("the host driver was opened, since: {}", refusal.words);
                    Ok((Self::host(options)?, Some(words)))
                }
                Err(refusal) => Err(refusal),
            },
        }
    }

    fn cuda() -> Result<Self> {
        let cuda = CudaDriver::open()?;
        Ok(Self { driver: cuda.clone(), streams: cuda })
    }

    fn host(options: &DriverOptions) -> Result<Self> {
        let device =
            HostDevice { capacity_bytes: options.host_capacity_bytes, granularity_bytes: options.host_granule_bytes };
        let devices = vec![device; options.host_devices];
        let host = HostDriver::new(HostConfig { devices, clock: Clock::Wall, ..HostConfig::default() })?;
        Ok(Self { driver: host.clone(), streams: host })
    }

    pub(crate) fn info(&self) -> Result<CDriverInfo> {
        Ok(CDriverInfo::of(self.driver.name(), self.driver.devices()?.len()))
    }

    /// What the driver says of one device.
    pub(crate) fn device(&self, device: DeviceId) -> Result<DeviceInfo> {
        let devices = self.driver.devices()?;
        let count = devices.len();
        devices.into_iter().find(|info| info.id == device).ok_or_else(|| {
            let words = format!("{device} is not one of the driver's {count} devices, numbered from 0");
            Refusal::new(Status::UnknownDevice, words)
        })
    }
}
