//! A parameter in shards, one on each of two devices, and gathered without a copy: a view puts the shards
//! one behind the other, under addresses that both devices may read.
//!
//! `cargo run --example tensor_parallel`: on two GPUs where there are two that reach each other, else on
//! the host driver.

#[path = "devices/mod.rs"]
mod devices;

use devices::Devices;
use stitchpool::driver::{DeviceId, Grant, RawStream, Rights};
use stitchpool::{Block, Pool, Request, Settings, StreamId};

const SHARD_BYTES: u64 = 16 << 20;

/// One device's part in it.
struct Rank {
    raw: RawStream,
    stream: StreamId,
    shard: Block,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let devices = Devices::open(2)?;
    let pool = Pool::new(devices.driver.clone(), Settings::default())?;
    let mut ranks = Vec::new();
    for device in [DeviceId(0), DeviceId(1)] {
        let raw = devices.kernels.create_stream(device)?;
        let stream = pool.register(raw)?;
        // Exclusive: the shard has handles of its own, so that a view can hold it.
        let shard = pool.alloc(&Request::new(SHARD_BYTES, stream).exclusive())?;
        ranks.push(Rank { raw, stream, shard });
    }

    let parts: Vec<_> = ranks.iter().map(|rank| rank.shard.into()).collect();
    let readers = [0, 1].map(|device| Grant { device: DeviceId(device), rights: Rights::Read });
    let gathered = pool.view(&parts, &readers)?;
    println!("{} bytes at {}, gathered from:", gathered.bytes(), gathered.address());
    for segment in gathered.segments() {
        println!("  {} {:>9} bytes on {}", segment.at, segment.bytes, segment.device);
    }

    // Each rank updates its own shard, where it may write; all of them then read the whole.
    for (rank, seed) in ranks.iter().zip(0..) {
        // SAFETY: the shard is live, and its device has rights on it.
        unsafe { devices.kernels.fill(rank.raw, rank.shard.address, SHARD_BYTES, seed)? };
        // SAFETY: the stream lives.
        unsafe { devices.kernels.finish_stream(rank.raw)? };
    }
    for reader in &ranks {
        gathered.record_use(reader.stream)?;
        for seed in 0..ranks.len() as u64 {
            let at = gathered.address() + seed * SHARD_BYTES;
            // SAFETY: the view stands until this stream is past, and both devices may read it.
            unsafe { devices.kernels.verify(reader.raw, at, SHARD_BYTES, seed)? };
        }
    }

    // The view may go, and the shards too, while that work is queued.
    drop(gathered);
    for rank in &ranks {
        pool.free(rank.shard.address)?;
        // SAFETY: the stream lives.
        unsafe { devices.kernels.finish_stream(rank.raw)? };
    }
    let trimmed = pool.trim_and_wait()?;
    println!("{}; {} bytes given back", devices.verdict()?, trimmed.released_bytes);
    Ok(())
}
