//! A graph that keeps its memory: captured once, replayed while other memory comes and goes, released.
//! It runs on the host driver.

use stitchpool::driver::host::{HostConfig, HostDriver};
use stitchpool::driver::{DeviceId, Kernels};
use stitchpool::{Pool, Request, Settings};

const MIB: u64 = 1 << 20;
const SEED: u64 = 42;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = HostDriver::new(HostConfig::default())?;
    let pool = Pool::new(host.clone(), Settings::default())?;
    let raw = host.create_stream(DeviceId(0))?;
    let stream = pool.register(raw)?;
    let arena = pool.arena("step")?;

    // The pool first, then the driver: what the stream allocates from here on is the graph's.
    pool.begin_capture(stream, arena)?;
    host.begin_capture(raw)?;
    let scratch = pool.alloc(&Request::new(64 * MIB, stream))?;
    // SAFETY: the block stays mapped until the graph is released.
    unsafe {
        host.fill(raw, scratch.address, scratch.bytes, SEED)?;
        host.verify(raw, scratch.address, scratch.bytes, SEED)?;
    }
    // A later request of the capture may have it; nobody else.
    pool.free(scratch.address)?;
    let graph = host.end_capture(raw)?;
    pool.end_capture(stream)?;

    for step in 0..3 {
        let other = pool.alloc(&Request::new(64 * MIB, stream))?;
        host.launch(raw, &graph)?;
        pool.free(other.address)?;
        let holdings = pool.stats().devices[0].holdings;
        println!("step {step}: {} MiB pinned, {} MiB free", holdings.pinned_bytes / MIB, holdings.free_bytes / MIB);
    }

    drop(graph);
    pool.release_graph(arena)?;
    println!("released: {} MiB given back", pool.trim_and_wait()?.released_bytes / MIB);
    println!("wrong bytes: {}", host.tally()?.wrong_bytes);
    Ok(())
}
