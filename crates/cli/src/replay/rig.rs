//! What a trace is played on: an open driver with its calls metered, a pool over it, and streams.

use super::script::Script;
use crate::args::{Capacity, ReplayArgs};
use crate::session::Session;
use crate::work::{Held, Lane};
use crate::{bytes, machine};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stitchpool_driver::host::{Clock, HostConfig, HostDevice, StreamMode};
use stitchpool_driver::{CostTable, DeviceId, Metered};
use stitchpool_pool::{Placement, Pool, Request, Settings};

/// An open driver, a pool over it, and a stream for each that the trace names.
pub struct Rig {
    /// Before the lanes, so that it goes first: it waits for them.
    pub pool: Pool,
    /// The driver as the pool sees it.
    pub metered: Arc<Metered>,
    /// By device and the trace's number of the stream. Number 0, the default stream, is a created one too.
    pub lanes: Vec<Vec<Lane>>,
    /// Where each device's blocks shall lie, if they may spill over; else empty.
    spills: Vec<Placement>,
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

/// How a live block lies over the devices.
pub struct Spread {
    /// The device whose stream it is for.
    pub home: usize,
    /// Bytes there.
    pub home_bytes: u64,
    /// Devices and bytes that are not.
    pub elsewhere: Vec<(usize, u64)>,
}

impl Spread {
    /// Bytes that are not at home.
    pub fn remote_bytes(&self) -> u64 {
        self.elsewhere.iter().map(|&(_, bytes)| bytes).sum()
    }

    /// Every device with its bytes.
    pub fn parts(&self) -> impl Iterator<Item = (usize, u64)> {
        std::iter::once((self.home, self.home_bytes)).chain(self.elsewhere.iter().copied())
    }
}

impl Rig {
    /// Opens one.
    pub fn open(args: &ReplayArgs, script: &Script, price: Price) -> Result<Self> {
        let needed = script.devices.len() as u16;
        let count = args.devices.unwrap_or(needed);
        if count < needed {
            bail!("the trace has {needed} devices, --devices allows {count}: allow {needed} or more");
        }
        if args.spill && count < 2 {
            bail!("with one device there is nowhere to spill to: use --devices 2 or more");
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
            demand_memory(script, limit_bytes.filter(|_| !args.spill))?;
        }
        let there = session.driver.devices()?.len();
        if there < usize::from(count) {
            bail!("{count} devices are needed, the driver has {there}: use --driver host, or fewer --devices");
        }
        let metered = match (price, &session.host) {
            (Price::OfCard, Some(_)) => Metered::priced(session.driver.clone(), CostTable::h200()),
            _ => Metered::timed(session.driver.clone()),
        };
        let devices: Vec<DeviceId> = (0..count).map(DeviceId).collect();
        let spills = if args.spill { devices.iter().map(|&home| spill(home, &devices)).collect() } else { Vec::new() };
        let pool = Pool::new(metered.clone(), Settings { devices, limit_bytes, ..Settings::default() })?;
        let mut lanes = Vec::new();
        for (device, steps) in (0..).map(DeviceId).zip(&script.devices) {
            let opened = steps.streams.iter().map(|_| Lane::open(&session, &pool, device));
            lanes.push(opened.collect::<Result<Vec<_>>>()?);
        }
        Ok(Self { pool, metered, lanes, spills, session, started: Instant::now(), is_paced: args.pace })
    }

    /// A request of one of the trace's streams.
    pub fn request(&self, device: usize, stream: usize, bytes: u64) -> Request {
        let request = Request::new(bytes, self.lanes[device][stream].id());
        match self.spills.get(device) {
            Some(placement) => request.placed(placement.clone()),
            None => request,
        }
    }

    /// Devices on which blocks may lie: the trace's own, or all if they may spill over.
    pub fn places(&self) -> usize {
        self.lanes.len().max(self.spills.len())
    }

    /// How a block of a device lies: the bytes on each place, that device's own among them.
    pub fn spread(&self, device: usize, held: &Held, bytes: u64) -> Result<Spread> {
        if self.spills.is_empty() {
            return Ok(Spread { home: device, home_bytes: bytes, elsewhere: Vec::new() });
        }
        let mut elsewhere: BTreeMap<usize, u64> = BTreeMap::new();
        for segment in self.pool.segments(held.block().address, bytes)? {
            *elsewhere.entry(usize::from(segment.device.0)).or_default() += segment.bytes;
        }
        let home_bytes = elsewhere.remove(&device).unwrap_or(0);
        Ok(Spread { home: device, home_bytes, elsewhere: elsewhere.into_iter().collect() })
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

/// At home first, then on the others.
fn spill(home: DeviceId, devices: &[DeviceId]) -> Placement {
    let others = devices.iter().copied().filter(|&device| device != home);
    Placement::Spill(std::iter::once(home).chain(others).collect())
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
