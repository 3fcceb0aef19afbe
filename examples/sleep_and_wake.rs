//! Reinforcement learning on one device: what samples, its weights and its cache, sleeps while training has the
//! memory, and wakes at the addresses that captured graphs and communicators know. The weights' bytes wait in host
//! memory; the cache is worth nothing after its rollout and is discarded.
//!
//! `cargo run --example sleep_and_wake`: on a GPU where there is one, else on the host driver.

#[path = "devices/mod.rs"]
mod devices;

use devices::Devices;
use stitchpool::driver::{Address, DeviceId, RawStream};
use stitchpool::{ArenaId, Backup, Block, Pool, Request, Scope, Settings, StreamId};

const MIB: u64 = 1 << 20;
const HERE: DeviceId = DeviceId(0);
/// One of a model's layers.
const LAYER_BYTES: u64 = 8 * MIB;
const LAYERS: u64 = 12;
const CACHE_BYTES: u64 = 48 * MIB;
/// What a step of training needs. Together with the sampler's it is more than there is.
const TRAINING_BYTES: u64 = 128 * MIB;
const LIMIT_BYTES: u64 = 160 * MIB;
const STEPS: u64 = 4;

/// What samples, and the stream that it works on.
struct Sampler {
    weights: ArenaId,
    cache: ArenaId,
    layers: Vec<Block>,
    entries: Block,
    raw: RawStream,
    stream: StreamId,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let devices = Devices::open(1)?;
    // Host memory for backups stays, so that only the first suspend pays for it.
    let backup_keep_bytes = LAYERS * LAYER_BYTES;
    let settings =
        Settings { devices: vec![HERE], limit_bytes: Some(LIMIT_BYTES), backup_keep_bytes, ..Settings::default() };
    let pool = Pool::new(devices.driver.clone(), settings)?;
    let sampler = Sampler::new(&devices, &pool)?;
    let addresses = sampler.addresses();
    sampler.load(&devices, 0)?;

    for step in 0..STEPS {
        sampler.roll_out(&devices, step)?;
        let kept = pool.suspend(Scope::Arena(sampler.weights), &Backup::Host)?;
        let gone = pool.suspend(Scope::Arena(sampler.cache), &Backup::Discard)?;
        train(&devices, &pool, &sampler, step)?;
        // What training has freed is waited for.
        let restored_bytes = pool.resume(Scope::Arena(sampler.weights))?.restored_bytes;
        pool.resume(Scope::Arena(sampler.cache))?;
        println!(
            "step {step}: {} MiB given to training, {} MiB of them put away and brought back",
            (kept.released_bytes + gone.released_bytes) / MIB,
            restored_bytes / MIB
        );
        sampler.check(&devices, step)?;
        // The step has made new ones.
        sampler.load(&devices, step + 1)?;
    }

    let same = addresses == sampler.addresses();
    for address in addresses {
        pool.free(address)?;
    }
    println!("most held {} of {} MiB", pool.stats().devices[0].physical_peak_bytes / MIB, LIMIT_BYTES / MIB);
    println!("{}; addresses changed: {}", devices.verdict()?, if same { "none" } else { "some" });
    Ok(())
}

/// Has all that the sampler has left, for one step.
fn train(devices: &Devices, pool: &Pool, sampler: &Sampler, step: u64) -> Result<(), Box<dyn std::error::Error>> {
    let activations = pool.alloc(&Request::new(TRAINING_BYTES, sampler.stream))?;
    fill(devices, sampler.raw, activations, !step)?;
    verify(devices, sampler.raw, activations, !step)?;
    pool.free(activations.address)?;
    Ok(())
}

impl Sampler {
    fn new(devices: &Devices, pool: &Pool) -> Result<Self, Box<dyn std::error::Error>> {
        let raw = devices.kernels.create_stream(HERE)?;
        let stream = pool.register(raw)?;
        let (weights, cache) = (pool.arena("weights")?, pool.arena("cache")?);
        let ask = |arena, bytes| pool.alloc(&Request::new(bytes, stream).in_arena(arena));
        let layers = (0..LAYERS).map(|_| ask(weights, LAYER_BYTES)).collect::<Result<_, _>>()?;
        let entries = ask(cache, CACHE_BYTES)?;
        Ok(Self { weights, cache, layers, entries, raw, stream })
    }

    fn addresses(&self) -> Vec<Address> {
        self.layers.iter().chain([&self.entries]).map(|block| block.address).collect()
    }

    /// New weights.
    fn load(&self, devices: &Devices, version: u64) -> stitchpool::driver::Result<()> {
        self.each_layer(version, |layer, seed| fill(devices, self.raw, layer, seed))
    }

    /// Whether the weights are those of this version.
    fn check(&self, devices: &Devices, version: u64) -> stitchpool::driver::Result<()> {
        self.each_layer(version, |layer, seed| verify(devices, self.raw, layer, seed))
    }

    fn each_layer(
        &self,
        version: u64,
        act: impl Fn(Block, u64) -> stitchpool::driver::Result<()>,
    ) -> stitchpool::driver::Result<()> {
        self.layers.iter().zip(0..).try_for_each(|(&layer, number)| act(layer, version << 8 | number))
    }

    /// Reads the weights, and fills and reads the cache: what was in it is gone.
    fn roll_out(&self, devices: &Devices, step: u64) -> stitchpool::driver::Result<()> {
        self.check(devices, step)?;
        fill(devices, self.raw, self.entries, step)?;
        verify(devices, self.raw, self.entries, step)
    }
}

fn fill(devices: &Devices, on: RawStream, block: Block, seed: u64) -> stitchpool::driver::Result<()> {
    // SAFETY: the block is live and awake, and a suspend waits for what is queued.
    unsafe { devices.kernels.fill(on, block.address, block.bytes, seed) }
}

fn verify(devices: &Devices, on: RawStream, block: Block, seed: u64) -> stitchpool::driver::Result<()> {
    // SAFETY: as for `fill`.
    unsafe { devices.kernels.verify(on, block.address, block.bytes, seed) }
}
