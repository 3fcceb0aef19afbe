//! `stitchpool info`: tells of the driver, its devices, and this machine's limits.

mod measure;
mod table;

use crate::args::{DriverChoice, InfoArgs};
use crate::machine::Machine;
use crate::session::Session;
use anyhow::Result;
use measure::Measured;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;
use stitchpool_chunks::{Origin, PhysicalHandle};
use stitchpool_driver::host::HostConfig;
use stitchpool_driver::{DeviceInfo, Driver, ErrorKind, HandleKind, HandleSpec, Link};

/// All that is told. The names are the interface to scripts.
#[derive(Debug, Serialize)]
pub struct Info {
    /// This program's version.
    pub version: &'static str,
    /// `cuda` or `host`.
    pub driver: &'static str,
    /// Why it is not CUDA, and what to do, where it could have been.
    pub cuda_unavailable: Option<String>,
    /// The devices, by ordinal.
    pub devices: Vec<Device>,
    /// How the device of the row reaches the memory of the column's: own, direct, bus, none.
    pub links: Vec<Vec<&'static str>>,
    /// This machine.
    pub machine: Machine,
    /// What the driver's calls cost, where that was asked for.
    pub measured: Option<Measured>,
}

/// A device.
#[derive(Debug, Serialize)]
pub struct Device {
    /// The driver's ordinal.
    pub ordinal: u16,
    /// The identity that holds across processes.
    pub uuid: String,
    /// The product.
    pub name: String,
    /// All of its memory.
    pub total_bytes: u64,
    /// What nobody has taken.
    pub free_bytes: u64,
    /// What it grants, by kind of handle.
    pub kinds: Vec<Kind>,
}

/// A kind of handle on a device.
#[derive(Debug, Serialize)]
pub struct Kind {
    /// `private`, `file descriptor` or `fabric`.
    pub kind: &'static str,
    /// The unit of sizes and places, where the driver names one.
    pub granularity_bytes: Option<u64>,
    /// Whether one could be created just now.
    pub is_granted: bool,
    /// Why not.
    pub refusal: Option<String>,
}

const KINDS: [(HandleKind, &str); 3] =
    [(HandleKind::Private, "private"), (HandleKind::FileDescriptor, "file descriptor"), (HandleKind::Fabric, "fabric")];

/// Prints all; nothing of it can be wrong.
pub fn run(args: &InfoArgs) -> Result<bool> {
    let session = Session::open(args.driver, HostConfig::default())?;
    let asked = args.driver == DriverChoice::Auto && session.host.is_some();
    let cuda_unavailable = if asked { Session::why_no_cuda() } else { None };
    let driver = &*session.driver;
    let listed = driver.devices()?;
    let origin = Origin::new(session.driver.clone());
    let info = Info {
        version: env!("CARGO_PKG_VERSION"),
        driver: driver.name(),
        cuda_unavailable,
        devices: listed.iter().map(|device| Device::ask(&origin, device)).collect::<Result<_>>()?,
        links: links(driver, &listed)?,
        machine: Machine::ask(),
        measured: args.measure.then(|| Measured::of(&session)).transpose()?,
    };
    if args.json {
        println!("{}", serde_json::to_string(&info)?);
    } else {
        table::print(&info);
    }
    Ok(true)
}

impl Device {
    fn ask(origin: &Arc<Origin>, info: &DeviceInfo) -> Result<Self> {
        Ok(Self {
            ordinal: info.id.0,
            uuid: dashed(info.uuid.0),
            name: info.name.clone(),
            total_bytes: info.total_bytes,
            free_bytes: origin.driver().memory(info.id)?.free_bytes,
            kinds: KINDS.iter().map(|&(kind, word)| Kind::ask(origin, info, kind, word)).collect(),
        })
    }
}

impl Kind {
    /// Creates one and gives it back: what a device says that it supports it does not always grant.
    fn ask(origin: &Arc<Origin>, info: &DeviceInfo, kind: HandleKind, word: &'static str) -> Self {
        let granularity = origin.driver().granularity(info.id, kind);
        let granularity_bytes = granularity.as_ref().ok().copied();
        let created =
            granularity.and_then(|bytes| PhysicalHandle::create(origin, HandleSpec { device: info.id, bytes, kind }));
        let refusal = created.err().map(|error| match error.kind {
            ErrorKind::NotPermitted | ErrorKind::NotSupported => error.kind.to_string(),
            _ => error.to_string(),
        });
        Self { kind: word, granularity_bytes, is_granted: refusal.is_none(), refusal }
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

/// A UUID as it is usually written.
fn dashed(bytes: [u8; 16]) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
