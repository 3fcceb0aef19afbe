//! One block over two devices: half of it on each, one contiguous range to the kernels of both.
//!
//! `cargo run --example two_devices`: on two GPUs where there are two that reach each other, else on the
//! host driver.

#[path = "devices/mod.rs"]
mod devices;

use devices::Devices;
use stitchpool::driver::{Address, DeviceId, RawStream};
use stitchpool::{Piece, Placement, Pool, Request, Settings};

const HALF_BYTES: u64 = 32 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let devices = Devices::open(2)?;
    let pool = Pool::new(devices.driver.clone(), Settings::default())?;
    let raw = [devices.kernels.create_stream(DeviceId(0))?, devices.kernels.create_stream(DeviceId(1))?];
    let [first, second] = [pool.register(raw[0])?, pool.register(raw[1])?];

    let halves = [0, 1].map(|device| Piece { device: DeviceId(device), bytes: HALF_BYTES });
    let request = Request::new(2 * HALF_BYTES, first).placed(Placement::Shards(halves.into()));
    let block = pool.alloc(&request)?;
    for segment in pool.segments(block.address, block.bytes)? {
        println!("{} {:>9} bytes on {}", segment.at, segment.bytes, segment.device);
    }

    // The first device writes all of it, the second reads all of it.
    pool.record_use(block.address, second)?;
    fill(&devices, raw[0], block.address, block.bytes)?;
    verify(&devices, raw[1], block.address, block.bytes)?;
    pool.free(block.address)?;
    println!("{}", devices.verdict()?);
    Ok(())
}

/// Writes a pattern and waits for it, so that the other stream comes after.
fn fill(devices: &Devices, on: RawStream, at: Address, bytes: u64) -> stitchpool::driver::Result<()> {
    // SAFETY: the block is live until after the last `finish_stream`, and both devices have rights on it.
    unsafe { devices.kernels.fill(on, at, bytes, 7).and_then(|()| devices.kernels.finish_stream(on)) }
}

fn verify(devices: &Devices, on: RawStream, at: Address, bytes: u64) -> stitchpool::driver::Result<()> {
    // SAFETY: as for `fill`.
    unsafe { devices.kernels.verify(on, at, bytes, 7).and_then(|()| devices.kernels.finish_stream(on)) }
}
