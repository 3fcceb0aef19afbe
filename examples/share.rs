//! One memory in two processes: this one fills a block and offers it, a child imports it by its ticket, checks
//! every word, writes others, and goes; then this one checks those and takes the offer back.
//!
//! `cargo run --example share`: on a GPU where there is one (with a second that reaches it the child works on that
//! one), else on the host driver.

#[path = "devices/mod.rs"]
mod devices;

use devices::Devices;
use std::error::Error;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;
use stitchpool::driver::{Address, DeviceId, Grant, HandleKind, Link, RawStream, Rights};
use stitchpool::share::{Exporter, Importer, TICKET_BYTES, Ticket};
use stitchpool::{Pool, Request, Settings};

const BYTES: u64 = 256 << 20;
const OURS: u64 = 1;
const THEIRS: u64 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("import") { import() } else { export() }
}

/// The process that owns the memory.
fn export() -> Result<(), Box<dyn Error>> {
    let devices = Devices::open(1)?;
    // Handles leave a process only if they were created for it.
    let settings = Settings { kind: HandleKind::FileDescriptor, ..Settings::default() };
    let pool = Pool::new(devices.driver.clone(), settings)?;
    let raw = devices.kernels.create_stream(DeviceId(0))?;
    let stream = pool.register(raw)?;
    let block = pool.alloc(&Request::new(BYTES, stream).exclusive())?;
    fill(&devices, raw, block.address, OURS)?;

    let exporter = Exporter::new(&pool)?;
    exporter.serve()?; // a thread answers; without it, call `answer`
    let offer = exporter.offer(&[block.into()], Rights::ReadWrite)?;
    println!("offered: {:?}", offer.ticket());

    let mut child = Command::new(std::env::current_exe()?).arg("import").stdin(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no pipe")?.write_all(&offer.ticket().to_bytes())?;
    if !child.wait()?.success() {
        return Err("the child failed".into());
    }
    verify(&devices, raw, block.address, THEIRS)?;

    // Nobody has it any more, so this returns at once; then the memory may move, sleep and be freed.
    exporter.recall(&offer, Duration::from_secs(5))?;
    drop((offer, exporter));
    pool.free(block.address)?;
    println!("exporter: {}", devices.verdict()?);
    Ok(())
}

/// The process that imports it.
fn import() -> Result<(), Box<dyn Error>> {
    let mut bytes = [0; TICKET_BYTES];
    std::io::stdin().read_exact(&mut bytes)?;
    let ticket = Ticket::of_bytes(&bytes)?;
    let devices = Devices::open(1)?;
    let importer = Importer::connect(devices.driver.clone(), &ticket)?;
    importer.watch()?; // a thread hears of a recall, and of the exporter's end

    // By its identity: the exporter may call the device by another number.
    let lies_on = importer.device_of(&ticket)?;
    let works_on = neighbour(&devices, lies_on)?.unwrap_or(lies_on);
    let import = importer.import(&ticket, &[Grant { device: works_on, rights: Rights::ReadWrite }])?;
    let hold = import.hold()?; // it stays mapped until the work is done
    let raw = devices.kernels.create_stream(works_on)?;
    verify(&devices, raw, hold.address(), OURS)?;
    fill(&devices, raw, hold.address(), THEIRS)?;
    println!("importer, on {works_on} with memory of {lies_on}: {}", devices.verdict()?);
    Ok(())
}

/// Another device that reaches the memory of this one.
fn neighbour(devices: &Devices, to: DeviceId) -> Result<Option<DeviceId>, Box<dyn Error>> {
    for info in devices.driver.devices()? {
        if info.id != to && devices.driver.link(info.id, to)? != Link::None {
            return Ok(Some(info.id));
        }
    }
    Ok(None)
}

fn fill(devices: &Devices, on: RawStream, at: Address, seed: u64) -> stitchpool::driver::Result<()> {
    // SAFETY: the memory is mapped and open to the stream's device until `finish_stream` has returned.
    unsafe { devices.kernels.fill(on, at, BYTES, seed).and_then(|()| devices.kernels.finish_stream(on)) }
}

fn verify(devices: &Devices, on: RawStream, at: Address, seed: u64) -> stitchpool::driver::Result<()> {
    // SAFETY: as for `fill`.
    unsafe { devices.kernels.verify(on, at, BYTES, seed).and_then(|()| devices.kernels.finish_stream(on)) }
}
