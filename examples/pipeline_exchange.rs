//! Two stages of a pipeline pass their buffers on by mapping: the memory behind the one's outbox and the other's
//! inbox is exchanged, nothing is copied, and both keep their addresses.
//!
//! `cargo run --example pipeline_exchange`: on two GPUs where there are two that reach each other, else on the
//! host driver.

#[path = "devices/mod.rs"]
mod devices;

use devices::Devices;
use std::time::Instant;
use stitchpool::driver::{DeviceId, RawStream};
use stitchpool::{Block, Pool, Request, Scope, Settings};

const MIB: u64 = 1 << 20;
const BYTES: u64 = 64 * MIB;
const STAGES: [DeviceId; 2] = [DeviceId(0), DeviceId(1)];
const BATCHES: u64 = 8;

/// One device's part in it: a stream, and the buffer that its kernels know by address.
struct Stage {
    raw: RawStream,
    buffer: Block,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let devices = Devices::open(2)?;
    // Handles of one length, so that the two buffers have the same layout, which an exchange needs.
    let pool = Pool::new(devices.driver.clone(), Settings { handle_bytes_max: 2 * MIB, ..Settings::default() })?;
    let stage = |device| -> Result<Stage, Box<dyn std::error::Error>> {
        let raw = devices.kernels.create_stream(device)?;
        // After an exchange each has the other's memory.
        let request = Request::new(BYTES, pool.register(raw)?).exclusive().open_to(&STAGES);
        Ok(Stage { raw, buffer: pool.alloc(&request)? })
    };
    let [first, second] = [stage(STAGES[0])?, stage(STAGES[1])?];
    let addresses = [first.buffer.address, second.buffer.address];

    let mut exchange_us = 0;
    for batch in 0..BATCHES {
        first.write(&devices, batch)?;
        let begun = Instant::now();
        // It waits for the writes and for what the second stage still reads.
        pool.exchange(Scope::Block(addresses[0]), Scope::Block(addresses[1]))?;
        exchange_us += begun.elapsed().as_micros() as u64;
        second.read(&devices, batch)?;
        println!("batch {batch}: the second stage reads it at {}, on {}", addresses[1], place(&pool, &second)?);
    }

    for address in addresses {
        pool.free(address)?;
    }
    pool.trim_and_wait()?;
    println!("{} us an exchange of {} MiB with {} MiB", exchange_us / BATCHES, BYTES / MIB, BYTES / MIB);
    println!("{}; nothing was copied", devices.verdict()?);
    Ok(())
}

/// The device that the stage's memory lies on now.
fn place(pool: &Pool, stage: &Stage) -> stitchpool::Result<String> {
    let segments = pool.segments(stage.buffer.address, stage.buffer.bytes)?;
    let mut places: Vec<String> = segments.iter().map(|segment| segment.device.to_string()).collect();
    places.dedup();
    Ok(places.join(" and "))
}

impl Stage {
    fn write(&self, devices: &Devices, batch: u64) -> stitchpool::driver::Result<()> {
        // SAFETY: the buffer is live until an exchange has waited for this, and its device has rights on it.
        unsafe { devices.kernels.fill(self.raw, self.buffer.address, self.buffer.bytes, batch) }
    }

    fn read(&self, devices: &Devices, batch: u64) -> stitchpool::driver::Result<()> {
        // SAFETY: as for `write`; the last read is waited for by the free of its own stream.
        unsafe { devices.kernels.verify(self.raw, self.buffer.address, self.buffer.bytes, batch) }
    }
}
