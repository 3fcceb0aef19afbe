//! More experts than memory: each is a block of its own, those not asked for lately wait in host memory, and
//! come back under the same address. Runs on CUDA where there is a GPU, else on the host driver.
//!
//! `cargo run --example oversubscribe`

mod devices;

use devices::Devices;
use stitchpool::driver::{DeviceId, RawStream};
use stitchpool::{Backup, Block, Pool, Request, Settings, StreamId};

const MIB: u64 = 1 << 20;
const LIMIT_BYTES: u64 = 256 * MIB;
const EXPERT_BYTES: u64 = 16 * MIB;
/// Three times as many as fit.
const EXPERTS: u64 = 48;
const TOKENS: u64 = 400;

/// What an expert is used with.
struct Router {
    devices: Devices,
    pool: Pool,
    raw: RawStream,
    stream: StreamId,
    dice: u64,
}

impl Router {
    /// Writes an expert's weights, each time others.
    fn load(&self, expert: Block, version: u64) -> Result<(), Box<dyn std::error::Error>> {
        let lease = self.pool.touch(expert.address)?;
        // SAFETY: the lease keeps the block mapped until the work is queued, and the pool awaits that work before
        // it takes the memory away.
        unsafe { self.devices.kernels.fill(self.raw, expert.address, expert.bytes, version)? };
        Ok(lease.end_on(self.stream).map_err(|refused| refused.0)?)
    }

    /// Reads them and checks every byte.
    fn ask(&self, expert: Block, version: u64) -> Result<(), Box<dyn std::error::Error>> {
        let lease = self.pool.touch(expert.address)?;
        // SAFETY: as in `load`.
        unsafe { self.devices.kernels.verify(self.raw, expert.address, expert.bytes, version)? };
        Ok(lease.end_on(self.stream).map_err(|refused| refused.0)?)
    }

    /// Some experts are asked far more often than others.
    fn choose(&mut self) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (one, other) = ((self.dice >> 33) % EXPERTS, (self.dice >> 48) % EXPERTS);
        one * other / EXPERTS
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let devices = Devices::open(1)?;
    println!("on the {} driver, at most {} MiB of it", devices.driver.name(), LIMIT_BYTES / MIB);
    let settings = Settings { devices: vec![DeviceId(0)], limit_bytes: Some(LIMIT_BYTES), ..Settings::default() };
    // Places in host memory are used again: making them is slow.
    let settings = Settings { backup_keep_bytes: 2 * LIMIT_BYTES, ..settings };
    let pool = Pool::new(devices.driver.clone(), settings)?;
    let raw = devices.kernels.create_stream(DeviceId(0))?;
    let stream = pool.register(raw)?;
    let arena = pool.arena("experts")?;
    pool.set_evictable(arena, Some(Backup::Host))?;

    let mut router = Router { devices, pool, raw, stream, dice: 7 };
    let request = Request::new(EXPERT_BYTES, stream).in_arena(arena).exclusive();
    let mut experts = Vec::new();
    for version in 0..EXPERTS {
        let expert = router.pool.alloc(&request)?;
        router.load(expert, version)?;
        experts.push((expert, version));
    }
    for token in 0..TOKENS {
        let chosen = usize::try_from(router.choose())?;
        let (expert, version) = experts[chosen];
        router.ask(expert, version)?;
        if token % 10 == 0 {
            experts[chosen].1 = EXPERTS + token;
            router.load(expert, EXPERTS + token)?;
        }
    }
    for &(expert, version) in &experts {
        router.ask(expert, version)?;
    }
    // SAFETY: the stream was created above.
    unsafe { router.devices.kernels.finish_stream(raw)? };

    let stats = router.pool.stats();
    println!("experts       {:>6} MiB", EXPERTS * EXPERT_BYTES / MIB);
    println!("most held     {:>6} MiB", stats.devices[0].physical_peak_bytes / MIB);
    println!("evictions     {:>6}, in {} uses", stats.evictions, 2 * EXPERTS + TOKENS + TOKENS / 10);
    println!("put out       {:>6} MiB", stats.evicted_bytes / MIB);
    println!("brought back  {:>6} MiB", stats.returned_bytes / MIB);
    println!("{}", router.devices.verdict()?);
    for (expert, _) in experts {
        router.pool.free(expert.address)?;
    }
    router.pool.retire(stream)?;
    drop(router.pool);
    // SAFETY: it is finished, nobody uses it any more, and it is destroyed once.
    unsafe { router.devices.kernels.destroy_stream(raw)? };
    Ok(())
}
