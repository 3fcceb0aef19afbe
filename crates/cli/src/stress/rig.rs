//! What stress runs on: a driver, its faults, a pool, and the streams that all threads share.

use crate::args::StressArgs;
use crate::bytes;
use crate::machine;
use crate::session::Session;
use crate::work::Lane;
use anyhow::{Result, bail};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use stitchpool_driver::host::{Clock, HostConfig, HostDevice, StreamMode};
use stitchpool_driver::{DeviceId, Driver, Faulty, Link, Metered, Verb};
use stitchpool_pool::{Pool, Settings};

/// The common ground of all threads.
pub struct Rig {
    /// Before the lanes, so that it goes first: it waits for them.
    pub pool: Pool,
    /// Streams that all threads use.
    pub lanes: Vec<Lane>,
    /// Makes calls of the pool fail, where that was asked for.
    pub faulty: Option<Arc<Faulty>>,
    /// Counts the pool's calls, refused ones apart.
    pub metered: Arc<Metered>,
    /// The driver as it is.
    pub session: Session,
    /// What the pool may hold of each device.
    pub capacity_bytes: u64,
    /// What the pool was built over.
    pub devices: Vec<DeviceId>,
    /// The granule.
    pub granule_bytes: u64,
    /// Whether each device reaches each.
    pub is_meshed: bool,
    now_us: AtomicU64,
    events: AtomicU64,
}

/// What the pool's calls have left with the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Handles.
    pub handles: u64,
    /// Reservations.
    pub reservations: u64,
    /// Events.
    pub events: u64,
}

const MIB: u64 = 1 << 20;
/// The host driver's memory is this machine's: all devices together get so much.
const HOST_BYTES: u64 = 1024 * MIB;
const CUDA_BYTES: u64 = 8192 * MIB;
/// Streams that come and go, each with its placements, want more addresses than so little memory suggests.
const ADDRESS_BYTES: u64 = 8 << 40;
/// How far the host driver's streams are behind.
const LAG_US: u64 = 3000;

impl Rig {
    /// Opens one.
    pub fn open(args: &StressArgs) -> Result<Self> {
        let shape = HostDevice::default();
        let host_bytes = args.capacity.unwrap_or_else(|| HOST_BYTES / u64::from(args.devices.max(2)));
        let host_bytes = (host_bytes - host_bytes % shape.granularity_bytes).max(shape.granularity_bytes);
        let session = Session::open(
            args.driver,
            HostConfig {
                devices: vec![HostDevice { capacity_bytes: host_bytes, ..shape }; usize::from(args.devices)],
                streams: StreamMode::Lagged { lag_us: LAG_US },
                clock: Clock::ByHand,
                watch_order: true,
                ..HostConfig::default()
            },
        )?;
        if session.host.is_some() {
            demand_memory(host_bytes, args.devices)?;
        }
        let there = session.driver.devices()?.len();
        if there < usize::from(args.devices) {
            bail!("--devices asks for {}, the driver has {there}: ask for fewer, or use --driver host", args.devices);
        }
        if args.faults && session.host.is_none() {
            bail!("--faults needs --driver host: a GPU's driver is not made to fail");
        }
        let capacity_bytes = if session.host.is_some() { host_bytes } else { args.capacity.unwrap_or(CUDA_BYTES) };
        let faulty = args.faults.then(|| Faulty::new(session.driver.clone()));
        let below: Arc<dyn Driver> = match &faulty {
            Some(faulty) => faulty.clone(),
            None => session.driver.clone(),
        };
        let metered = Metered::timed(below);
        let devices: Vec<DeviceId> = (0..args.devices).map(DeviceId).collect();
        let is_meshed = is_meshed(&*session.driver, &devices)?;
        let settings = Settings {
            devices: devices.clone(),
            limit_bytes: Some(capacity_bytes),
            address_bytes: Some(ADDRESS_BYTES),
            // One thread alone does what its seed says.
            background_thread: args.threads > 1,
            ..Settings::default()
        };
        let granule_bytes = session.driver.granularity(devices[0], settings.kind)?;
        let pool = Pool::new(metered.clone(), settings)?;
        let dealt = devices.iter().cycle().take(usize::from(args.streams.max(args.devices)));
        let lanes = dealt.map(|&device| Lane::open(&session, &pool, device)).collect::<Result<_>>()?;
        let (now_us, events) = Default::default();
        Ok(Self {
            pool,
            lanes,
            faulty,
            metered,
            session,
            capacity_bytes,
            devices,
            granule_bytes,
            is_meshed,
            now_us,
            events,
        })
    }

    /// Puts the host driver's clock forward.
    pub fn pass(&self, micros: u64) {
        if let Some(host) = &self.session.host {
            host.set_now_us(self.now_us.fetch_add(micros, Relaxed) + micros);
        }
    }

    /// A number for an event, greater than those before.
    pub fn next_event(&self) -> u64 {
        self.events.fetch_add(1, Relaxed)
    }

    /// Ends the pool and the streams, and says what the pool has not given back.
    pub fn end(self) -> (Session, Left) {
        let Self { pool, lanes, metered, session, .. } = self;
        drop(pool);
        drop(lanes);
        let spent = metered.spent();
        let done = |verb| spent.of(verb).calls - spent.of(verb).refused;
        let left = Left {
            handles: (done(Verb::Create) + done(Verb::Import)).saturating_sub(done(Verb::Release)),
            reservations: done(Verb::Reserve).saturating_sub(done(Verb::Unreserve)),
            events: done(Verb::Record).saturating_sub(done(Verb::Forget)),
        };
        (session, left)
    }
}

/// The host driver's memory is this machine's, and whoever takes too much is ended by the system.
fn demand_memory(capacity_bytes: u64, devices: u16) -> Result<()> {
    let most_bytes = machine::available_bytes().unwrap_or(u64::MAX) / 10 * 9;
    let each_bytes = most_bytes / u64::from(devices);
    if capacity_bytes > each_bytes {
        bail!(
            "{devices} devices of {} would fill more than the {} that this machine has to give: use --capacity {}MiB or less",
            bytes::show(capacity_bytes),
            bytes::show(most_bytes),
            each_bytes / MIB
        );
    }
    Ok(())
}

fn is_meshed(driver: &dyn Driver, devices: &[DeviceId]) -> Result<bool> {
    for &from in devices {
        for &to in devices {
            if driver.link(from, to)? == Link::None {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
