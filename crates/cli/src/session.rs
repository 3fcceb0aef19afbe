//! Opens the driver that was asked for, with what queues work on its streams.

use crate::args::DriverChoice;
use anyhow::{Context, Result};
use std::sync::Arc;
use stitchpool_driver::cuda::CudaDriver;
use stitchpool_driver::host::{HostConfig, HostDriver};
use stitchpool_driver::{Driver, ErrorKind, Kernels};

/// An open driver.
pub struct Session {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// Work for its streams.
    pub kernels: Arc<dyn Kernels>,
    /// Its own face, where it is the host driver.
    pub host: Option<Arc<HostDriver>>,
    /// The same for CUDA's.
    pub cuda: Option<Arc<CudaDriver>>,
}

impl Session {
    /// Opens the driver; `config` is what a host driver shall look like. The choice `auto` takes the host
    /// driver where there is no CUDA, and only there.
    pub fn open(choice: DriverChoice, config: HostConfig) -> Result<Self> {
        match choice {
            DriverChoice::Host => Self::host(config),
            DriverChoice::Cuda => Ok(Self::cuda(CudaDriver::open().context(
                "--driver cuda cannot run here; `stitchpool info` looks for the reason, and --driver host needs no GPU",
            )?)),
            DriverChoice::Auto => match CudaDriver::open() {
                Ok(cuda) => Ok(Self::cuda(cuda)),
                Err(error) if error.kind == ErrorKind::Unavailable => Self::host(config),
                Err(error) => Err(error).context("CUDA is there but does not open; --driver host needs no GPU"),
            },
        }
    }

    /// Why CUDA does not open, and what to do.
    pub fn why_no_cuda() -> Option<String> {
        CudaDriver::open().err().map(|error| error.detail)
    }

    fn host(config: HostConfig) -> Result<Self> {
        let host = HostDriver::new(config)?;
        Ok(Self { driver: host.clone(), kernels: host.clone(), host: Some(host), cuda: None })
    }

    fn cuda(cuda: Arc<CudaDriver>) -> Self {
        Self { driver: cuda.clone(), kernels: cuda.clone(), host: None, cuda: Some(cuda) }
    }
}
