//! The keywords that a pool is made with, and the driver that they ask for.

use crate::refused::{Refused, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use std::time::Duration;
use stitchpool_c::device_of;
use stitchpool_driver::cuda::CudaDriver;
use stitchpool_driver::host::{Clock, HostConfig, HostDevice, HostDriver};
use stitchpool_driver::{DeviceId, Driver, ErrorKind, HandleKind, Kernels};
use stitchpool_pool::Settings;

/// What a pool shall be.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) settings: Settings,
    /// Of the host driver's devices.
    granule_bytes: Option<u64>,
}

/// An open driver.
pub(crate) struct Opened {
    pub(crate) driver: Arc<dyn Driver>,
    /// What makes streams on it.
    pub(crate) streams: Arc<dyn Kernels>,
    /// Why it is the host driver, where `auto` had to take it.
    pub(crate) why_host: Option<String>,
}

const KEYWORDS: &str = "devices, capacity, granule, headroom_bytes, handle_bytes_max, address_bytes, handle_kind, \
                        stream_waits, open_to_peers, backup_keep_bytes, poison, background_thread, wait_max, seal_pause, \
                        decay";

impl Options {
    /// Reads keywords; what is `None` is as if it was not said.
    pub(crate) fn read(keywords: Option<&Bound<'_, PyDict>>) -> Result<Self> {
        let mut options = Self::default();
        for (key, value) in keywords.into_iter().flatten() {
            if !value.is_none() {
                options.take(&key.extract::<String>()?, &value)?;
            }
        }
        Ok(options)
    }

    fn take(&mut self, key: &str, value: &Bound<'_, PyAny>) -> Result<()> {
        let settings = &mut self.settings;
        match key {
            "devices" => {
                let numbers = value.try_iter()?.map(|number| number?.extract::<i32>()).collect::<PyResult<Vec<_>>>()?;
                settings.devices = numbers.into_iter().map(device_of).collect::<std::result::Result<_, _>>()?;
            }
            "capacity" => settings.limit_bytes = Some(value.extract()?),
            "granule" => self.granule_bytes = Some(value.extract()?),
            "headroom_bytes" => settings.headroom_bytes = value.extract()?,
            "handle_bytes_max" => settings.handle_bytes_max = value.extract()?,
            "address_bytes" => settings.address_bytes = Some(value.extract()?),
            "handle_kind" => settings.kind = kind(&value.extract::<String>()?)?,
            "stream_waits" => settings.stream_waits = value.extract()?,
            "open_to_peers" => settings.open_to_peers = value.extract()?,
            "backup_keep_bytes" => settings.backup_keep_bytes = value.extract()?,
            "poison" => settings.poison = value.extract()?,
            "background_thread" => settings.background_thread = value.extract()?,
            "wait_max" => settings.wait_max = seconds(key, value)?,
            "seal_pause" => settings.seal_pause = seconds(key, value)?,
            "decay" => settings.decay = seconds(key, value)?,
            _ => return Err(Refused::request(format!("a pool has no setting `{key}`; it has {KEYWORDS}"))),
        }
        Ok(())
    }

    /// Opens the driver that is named.
    pub(crate) fn open(&self, driver: &str) -> Result<Opened> {
        match driver {
            "cuda" => self.cuda(CudaDriver::open()?),
            "host" => self.host(None),
            "auto" => match CudaDriver::open() {
                Ok(cuda) => self.cuda(cuda),
                Err(error) if error.kind == ErrorKind::Unavailable => self.host(Some(error.to_string())),
                Err(error) => Err(error.into()),
            },
            _ => Err(Refused::request(format!("there is no driver {driver:?}: say auto, cuda or host"))),
        }
    }

    fn cuda(&self, cuda: Arc<CudaDriver>) -> Result<Opened> {
        if self.granule_bytes.is_some() {
            return Err(Refused::request("`granule` is for the host driver: CUDA has its own"));
        }
        Ok(Opened { driver: cuda.clone(), streams: cuda, why_host: None })
    }

    /// A device for each that is named, at least one.
    fn host(&self, why_host: Option<String>) -> Result<Opened> {
        let shape = HostDevice::default();
        let shape = HostDevice {
            capacity_bytes: self.settings.limit_bytes.unwrap_or(shape.capacity_bytes),
            granularity_bytes: self.granule_bytes.unwrap_or(shape.granularity_bytes),
        };
        let ordinals = self.settings.devices.iter().filter(|device| !device.is_host()).map(|DeviceId(ordinal)| ordinal);
        let devices = vec![shape; usize::from(ordinals.max().copied().unwrap_or(0)) + 1];
        let host = HostDriver::new(HostConfig { devices, clock: Clock::Wall, ..HostConfig::default() })?;
        Ok(Opened { driver: host.clone(), streams: host, why_host })
    }
}

fn kind(name: &str) -> Result<HandleKind> {
    match name {
        "private" => Ok(HandleKind::Private),
        "file_descriptor" => Ok(HandleKind::FileDescriptor),
        "fabric" => Ok(HandleKind::Fabric),
        _ => Err(Refused::request(format!("there is no handle_kind {name:?}: say private, file_descriptor or fabric"))),
    }
}

fn seconds(key: &str, value: &Bound<'_, PyAny>) -> Result<Duration> {
    let seconds: f64 = value.extract()?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Refused::request(format!("`{key}` is {seconds} seconds: it must be 0 or more")))
}
