//! Opens the driver that was asked for, with what queues work on its streams.

use crate::args::DriverChoice;
use anyhow::{Context, Result};
use std::sync::Arc;
use stitchpool_driver::cuda::CudaDriver;
use stitchpool_driver::host::{HostConfig, HostDriver};
use stitchpool_driver::{Driver, Kernels};

/// An open driver.
pub struct Session {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// Work for its streams.
    pub kernels: Arc<dyn Kernels>,
    /// Its own face, where it is the host driver.
    pub host: Option<Arc<HostDriver>>,
    /// Its own face, where it is CUDA.
    pub cuda: Option<Arc<CudaDriver>>,
}

impl Session {
    /// Opens the driver; `config` is what a host driver shall look like.
    pub fn open(choice: DriverChoice, config: HostConfig) -> Result<Self> {
        match choice {
            DriverChoice::Host => Self::host(config),
            DriverChoice::Cuda => Self::cuda().context("--driver cuda cannot run here; --driver host needs no GPU"),
            DriverChoice::Auto => Self::cuda().or_else(|_| Self::host(config)),
        }
    }

    fn host(config: HostConfig) -> Result<Self> {
        let host = HostDriver::new(config)?;
        Ok(Self { driver: host.clone(), kernels: host.clone(), host: Some(host), cuda: None })
    }

    fn cuda() -> Result<Self> {
        let cuda = CudaDriver::open()?;
        Ok(Self { driver: cuda.clone(), kernels: cuda.clone(), host: None, cuda: Some(cuda) })
    }
}
