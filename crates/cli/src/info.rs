//! `stitchpool info`: tells of the driver, its devices, what works on them, and this machine's limits.

mod ailment;
mod bandwidth;
mod device;
mod feature;
mod limit;
mod measure;
mod spread;
mod table;
mod trial;

use crate::args::{DriverChoice, InfoArgs};
use crate::machine::Machine;
use crate::say::say;
use crate::session::Session;
use ailment::Ailment;
use anyhow::{Result, ensure};
use device::Device;
use feature::Feature;
use limit::Limits;
use measure::Measured;
use serde::Serialize;
use stitchpool_chunks::Origin;
use stitchpool_driver::{DeviceInfo, Driver, Link};
use trial::Trial;

/// All that is told. The names are the interface to scripts.
#[derive(Debug, Serialize)]
pub struct Info {
    /// This program's version.
    pub version: &'static str,
    /// `cuda` or `host`.
    pub driver: &'static str,
    /// Why it is not CUDA, and what to do, where it could have been.
    pub cuda_unavailable: Option<String>,
    /// The CUDA version that the driver speaks: major, minor.
    pub cuda_version: Option<(u32, u32)>,
    /// The devices, by ordinal.
    pub devices: Vec<Device>,
    /// How the device of the row reaches the memory of the column's: own, direct, bus, none.
    pub links: Vec<Vec<&'static str>>,
    /// What works.
    pub features: Vec<Feature>,
    /// The usual troubles, looked for.
    pub troubles: Vec<Ailment>,
    /// This machine.
    pub machine: Machine,
    /// Limits that were found by trying.
    pub limits: Limits,
    /// The contexts of this process, where the driver has any.
    pub contexts: Option<Contexts>,
    /// What the driver's calls cost, where that was asked for.
    pub measured: Option<Measured>,
}

/// Contexts, as one thread of this process sees them.
#[derive(Debug, Serialize)]
pub struct Contexts {
    /// Devices on which this process has a context now. Free bytes are told only inside one, and each
    /// takes about half a GiB of its device.
    pub on_devices: Vec<u16>,
    /// Whether the thread's current context is after all trials what it was before.
    pub is_unchanged: bool,
}

/// Prints all. What does not work is told, and is no failure of this command.
pub fn run(args: &InfoArgs) -> Result<bool> {
    let session = Session::open(args.driver, args.host.config())?;
    ensure!(
        session.host.is_some() || args.host.is_plain(),
        "--devices, --granule, --capacity, --no-peers and --descriptors shape the host driver: add --driver host"
    );
    let info = Info::ask(&session, args)?;
    if args.json {
        say(&(serde_json::to_string(&info)? + "\n"))?;
    } else {
        say(&table::text(&info))?;
    }
    Ok(true)
}

impl Info {
    fn ask(session: &Session, args: &InfoArgs) -> Result<Self> {
        let asked = args.driver == DriverChoice::Auto && session.host.is_some();
        let driver = &*session.driver;
        let origin = Origin::new(session.driver.clone());
        let listed = driver.devices()?;
        let facts = session.cuda.as_ref().map(|cuda| cuda.facts()).transpose()?;
        let machine = Machine::ask();
        let limits = Limits::ask(&origin);
        let trial = Trial { session, origin: origin.clone(), devices: &listed };
        let mut features = trial.all();
        features.extend(limits.features(&origin, &listed, &machine));
        let devices: Vec<Device> =
            listed.iter().map(|device| Device::ask(&origin, device, session.cuda.as_deref())).collect::<Result<_>>()?;
        let mut info = Self {
            version: env!("CARGO_PKG_VERSION"),
            driver: driver.name(),
            cuda_unavailable: if asked { Session::why_no_cuda() } else { None },
            cuda_version: facts.map(|facts| facts.version),
            contexts: None,
            devices,
            links: links(driver, &listed)?,
            features,
            troubles: Vec::new(),
            machine,
            limits,
            measured: args.measure.then(|| Measured::of(session)).transpose()?,
        };
        if let (Some(cuda), Some(before)) = (&session.cuda, facts) {
            let has_context = |device: &&Device| device.advertised.as_ref().is_some_and(|said| said.has_context);
            info.contexts = Some(Contexts {
                on_devices: info.devices.iter().filter(has_context).map(|device| device.ordinal).collect(),
                is_unchanged: cuda.facts()?.current_context == before.current_context,
            });
        }
        info.troubles = ailment::all(&info);
        Ok(info)
    }
}

fn links(driver: &dyn Driver, devices: &[DeviceInfo]) -> Result<Vec<Vec<&'static str>>> {
    let word = |from: &DeviceInfo, to: &DeviceInfo| {
        Ok(match driver.link(from.id, to.id)? {
            Link::Own => "own",
            Link::Direct => "direct",
            Link::Bus => "bus",
            Link::None => "none",
        })
    };
    devices.iter().map(|from| devices.iter().map(|to| word(from, to)).collect()).collect()
}
