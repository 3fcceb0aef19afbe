//! Watches a pool at work: each driver call and each decision as an event, and after every round the
//! picture of its ranges, one letter a granule. On CUDA where there is a GPU, else on the host driver.
//!
//! ```sh
//! cargo run --example watch            # decisions and refusals
//! cargo run --example watch -- calls   # every driver call too
//! ```

use std::error::Error;
use std::sync::Arc;
use stitchpool::driver::cuda::CudaDriver;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{DeviceId, Driver, Kernels, Metered, RawStream};
use stitchpool::{Block, Pool, Request, Settings};
use tracing::Level;

const MIB: u64 = 1 << 20;
/// So much the pool may hold: little enough that handles must move.
const LIMIT_BYTES: u64 = 64 * MIB;
const ROUNDS: u64 = 6;

fn main() -> Result<(), Box<dyn Error>> {
    let all_calls = std::env::args().any(|word| word == "calls");
    let level = if all_calls { Level::TRACE } else { Level::DEBUG };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).without_time().with_writer(std::io::stdout).init();

    let (driver, kernels) = open()?;
    let metered = Metered::timed(driver);
    let settings = Settings {
        devices: vec![DeviceId(0)],
        limit_bytes: Some(LIMIT_BYTES),
        handle_bytes_max: 4 * MIB,
        ..Settings::default()
    };
    let pool = Pool::new(metered.clone(), settings)?;
    let raw = kernels.create_stream(DeviceId(0))?;
    churn(&pool, raw)?;
    println!("\nAs Prometheus would read it:\n{}", pool.stats().prometheus("watch", Some(&metered.spent())));
    Ok(())
}

/// A driver, and what makes streams on it.
type Opened = (Arc<dyn Driver>, Arc<dyn Kernels>);

fn open() -> Result<Opened, Box<dyn Error>> {
    if let Ok(cuda) = CudaDriver::open() {
        return Ok((cuda.clone(), cuda));
    }
    let device = HostDevice { capacity_bytes: LIMIT_BYTES, ..HostDevice::default() };
    let host = HostDriver::new(HostConfig { devices: vec![device], ..HostConfig::default() })?;
    Ok((host.clone(), host))
}

/// Small blocks first, every second one freed; then one that fits no hole, and so stitches them.
fn churn(pool: &Pool, raw: RawStream) -> Result<(), Box<dyn Error>> {
    let stream = pool.register(raw)?;
    for round in 0..ROUNDS {
        let small = (0..8).map(|index| pool.alloc(&Request::new((4 + (round + index) % 4) * MIB, stream)));
        let small: Vec<Block> = small.collect::<Result<_, _>>()?;
        let (freed, kept): (Vec<_>, Vec<_>) = small.iter().enumerate().partition(|(index, _)| index % 2 == 0);
        for (_, block) in freed {
            pool.free(block.address)?;
        }
        let large = pool.alloc(&Request::new(20 * MIB, stream))?;
        show(pool, round);
        for block in kept.into_iter().map(|(_, block)| block).chain([&large]) {
            pool.free(block.address)?;
        }
    }
    pool.trim_and_wait()?;
    pool.retire(stream)?;
    Ok(())
}

fn show(pool: &Pool, round: u64) {
    let stats = pool.stats();
    println!("round {round}: {} hits, {} misses, {} handles moved", stats.hits(), stats.misses, stats.handles_aliased);
    for line in pool.pictures() {
        println!("  {line}");
    }
}
