//! What a trace is played on: an open driver with its calls metered, a pool over it, and streams.

use super::script::Script;
use crate::args::{Capacity, ReplayArgs};
use crate::session::Session;
use crate::work::Lane;
use crate::{bytes, machine};
use anyhow::{Result, bail};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stitchpool_driver::host::{Clock, HostConfig, HostDevice, StreamMode};
use stitchpool_driver::{CostTable, DeviceId, Metered};
use stitchpool_pool::{Pool, Settings};

/// An open driver, a pool over it, and a stream for each that the trace names.
pub struct Rig {
    /// Before the lanes, so that it goes first: it waits for them.
    pub pool: Pool,
    /// The driver as the pool sees it.
    pub metered: Arc<Metered>,
    /// By device and the trace's number of the stream. Number 0, the default stream, is a created one too.
    pub lanes: Vec<Vec<Lane>>,
    /// The driver as it is.
    pub session: Session,
    started: Instant,
    is_paced: bool,
}

/// What the driver's calls cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// On the host driver what they would on an H200; on CUDA their time.
    OfCard,
    /// Their time.
    OfClock,
}

impl Rig {
    /// Opens one.
    pub fn open(args: &ReplayArgs, script: &Script, price: Price) -> Result<Self> {
        let needed = script.devices.len() as u16;
        let count = args.devices.unwrap_or(needed);
        if count < needed {
            bail!("the trace has {needed} devices, --devices allows {count}: allow {needed} or more");
        }
        let shape = HostDevice::default();
        let limit_bytes = limit_bytes(args, script, shape.granularity_bytes);
        let shape = HostDevice { capacity_bytes: limit_bytes.unwrap_or(shape.capacity_bytes), ..shape };
        let lag_us = args.lag_ms * 1000;
        let session = Session::open(
            args.driver,
            HostConfig {
                devices: vec![shape; usize::from(count)],
                streams: StreamMode::Lagged { lag_us },
                clock: Clock::ByHand,
                watch_order: args.check,
                ..HostConfig::default()
            },
        )?;
        if args.check && session.host.is_some() {
            demand_memory(script, limit_bytes)?;
        }
        let there = session.driver.devices()?.len();
        if there < usize::from(count) {
            bail!("{count} devices are needed, the driver has {there}: use --driver host, or fewer --devices");
        }
        let metered = match (price, &session.host) {
            (Price::OfCard, Some(_)) => Metered::priced(session.driver.clone(), CostTable::h200()),
            _ => Metered::timed(session.driver.clone()),
        };
        let devices = (0..count).map(DeviceId).collect();
        let pool = Pool::new(metered.clone(), Settings { devices, limit_bytes, ..Settings::default() })?;
        let mut lanes = Vec::new();
        for (device, steps) in (0..).map(DeviceId).zip(&script.devices) {
            let opened = steps.streams.iter().map(|_| Lane::open(&session, &pool, device));
            lanes.push(opened.collect::<Result<Vec<_>>>()?);
        }
        Ok(Self { pool, metered, lanes, session, started: Instant::now(), is_paced: args.pace })
    }

    /// Comes to a time of the trace: sets the host driver's clock, or sleeps where that was asked for.
    pub fn reach(&self, time_us: u64) {
        if let Some(host) = &self.session.host {
            host.set_now_us(time_us);
        } else if self.is_paced {
            std::thread::sleep(Duration::from_micros(time_us).saturating_sub(self.started.elapsed()));
        }
    }
}

/// Patterns on the host driver take memory of this machine, and whoever takes too much is ended by the system.
fn demand_memory(script: &Script, limit_bytes: Option<u64>) -> Result<()> {
    let of_device = |device| script.peak_live_bytes(device).min(limit_bytes.unwrap_or(u64::MAX));
    let needed_bytes: u64 = (0..script.devices.len()).map(of_device).sum();
    match machine::available_bytes() {
        Some(there_bytes) if needed_bytes > there_bytes / 10 * 9 => bail!(
            "--check on the host driver fills {}, this machine has {} to give: use --scale {:.3} or less",
            bytes::show(needed_bytes),
            bytes::show(there_bytes),
            script.scale() * there_bytes as f64 * 0.8 / needed_bytes as f64
        ),
        _ => Ok(()),
    }
}

/// What the pool may hold of each device, where that was said.
fn limit_bytes(args: &ReplayArgs, script: &Script, granule_bytes: u64) -> Option<u64> {
    match args.capacity? {
        Capacity::Bytes(bytes) => Some(bytes),
        Capacity::OfPeak(factor) => {
            let peaks = (0..script.devices.len()).map(|device| script.peak_live_bytes(device));
            let bytes = peaks.max().unwrap_or(0) as f64 * factor;
            Some((bytes as u64).next_multiple_of(granule_bytes))
        }
    }
}
