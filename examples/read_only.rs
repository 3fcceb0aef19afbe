//! Read-only memory: a kernel that writes it fails, and only the process that launched it.
//!
//! On a GPU such a write ends the context, so a child process makes it: the child says what it saw by its
//! exit status, and the parent, whose pool has the same device, goes on. `cargo run --example read_only`;
//! `--device cuda` fails where there is no GPU, `--on-peer` puts the memory on another device than the kernels.

#[path = "devices/mod.rs"]
mod devices;

use devices::Devices;
use std::process::{Command, ExitCode};
use stitchpool::driver::{DeviceId, Grant, RawStream, Rights};
use stitchpool::{Block, Placement, Pool, Request, Scope, Settings};

const BYTES: u64 = 8 << 20;
const HERE: DeviceId = DeviceId(0);
/// The child's exit status where reading went well and writing did not.
const WRITE_REFUSED: u8 = 42;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A pool with a block that was filled, and is read-only since.
struct Stage {
    devices: Devices,
    pool: Pool,
    stream: RawStream,
    block: Block,
}

fn main() -> ExitCode {
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("--child") => child(),
        _ => parent(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("read_only: {error}");
        ExitCode::FAILURE
    })
}

fn set_up() -> Outcome<Stage> {
    let on_peer = std::env::args().any(|argument| argument == "--on-peer");
    let devices = Devices::open(if on_peer { 2 } else { 1 })?;
    if std::env::args().any(|argument| argument == "cuda") && devices.driver.name() != "cuda" {
        return Err("there is no GPU".into());
    }
    let place = if on_peer { DeviceId(1) } else { HERE };
    let pool = Pool::new(devices.driver.clone(), Settings::default())?;
    let stream = devices.kernels.create_stream(HERE)?;
    let block = pool.alloc(&Request::new(BYTES, pool.register(stream)?).placed(Placement::Home(place)).exclusive())?;
    let stage = Stage { devices, pool, stream, block };
    stage.write()?;
    stage.pool.set_rights(Scope::Block(block.address), &[Grant { device: HERE, rights: Rights::Read }])?;
    Ok(stage)
}

impl Stage {
    fn write(&self) -> stitchpool::driver::Result<()> {
        // SAFETY: the block is live. That it may be read-only is what this program is about: the driver ends
        // the context then, or notes a fault.
        unsafe { self.devices.kernels.fill(self.stream, self.block.address, BYTES, 1) }?;
        self.finish()
    }

    fn read(&self) -> stitchpool::driver::Result<()> {
        // SAFETY: the block is live, and may be read.
        unsafe { self.devices.kernels.verify(self.stream, self.block.address, BYTES, 1) }?;
        self.finish()
    }

    fn finish(&self) -> stitchpool::driver::Result<()> {
        // SAFETY: the stream lives.
        unsafe { self.devices.kernels.finish_stream(self.stream) }
    }
}

/// Reads, which must be right, and writes, which must fail.
fn child() -> Outcome<ExitCode> {
    let stage = set_up()?;
    stage.read()?;
    stage.devices.verdict()?;
    let written = stage.write();
    let noted = stage.devices.kernels.tally().is_ok_and(|tally| !tally.faults.is_empty());
    match written {
        Ok(()) if !noted => return Err("a read-only block was written".into()),
        Ok(()) => println!("the write is a fault: {:?}", stage.devices.kernels.tally()?.faults),
        Err(error) => println!("the write failed: {error}"),
    }
    // The context is gone, so nothing can be given back: the process's end does it.
    std::mem::forget(stage);
    Ok(ExitCode::from(WRITE_REFUSED))
}

/// Goes on using its own block of the same device, before and after the child's end.
fn parent() -> Outcome<ExitCode> {
    let stage = set_up()?;
    stage.read()?;
    let mut child = Command::new(std::env::current_exe()?);
    child.arg("--child").args(std::env::args().skip(1));
    let status = child.status()?;
    if status.code() != Some(i32::from(WRITE_REFUSED)) {
        return Err(format!("the child ended with {status}, not with {WRITE_REFUSED}").into());
    }
    stage.read()?;
    stage.pool.set_rights(Scope::Block(stage.block.address), &[Grant { device: HERE, rights: Rights::ReadWrite }])?;
    stage.write()?;
    stage.read()?;
    stage.pool.free(stage.block.address)?;
    println!("{}; a write to read-only memory ended the child alone", stage.devices.verdict()?);
    Ok(ExitCode::SUCCESS)
}
