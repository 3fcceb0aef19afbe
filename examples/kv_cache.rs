//! A key-value cache: each sequence has a buffer of fixed address that grows by blocks of tokens, and gives
//! its tail back when the sequence is done. Runs on CUDA where there is a GPU, else on the host driver.
//!
//! `cargo run --example kv_cache`

use std::sync::Arc;
use stitchpool::driver::cuda::CudaDriver;
use stitchpool::driver::host::{HostConfig, HostDriver};
use stitchpool::driver::{DeviceId, Driver, ErrorKind, RawStream};
use stitchpool::{Error, Growable, Pool, Request, Settings, StreamId};

const MIB: u64 = 1 << 20;
/// Keys and values of 16 tokens: 32 layers, 8 heads of 128 numbers of 2 bytes, twice.
const TOKENS: u64 = 16;
const BLOCK_BYTES: u64 = TOKENS * 32 * 8 * 128 * 2 * 2;
/// What a sequence may become.
const BLOCKS_MAX: u64 = 64;
/// A prompt stays for the next question.
const PROMPT_BLOCKS: u64 = 4;
const SEQUENCES: u64 = 6;
const STEPS: u64 = 240;
/// Far less than all maxima together.
const LIMIT_BYTES: u64 = 320 * MIB;

/// One conversation.
struct Sequence {
    cache: Growable,
    blocks: u64,
    /// It is done when it has so many.
    end_blocks: u64,
    turns: u64,
}

fn open() -> Result<Arc<dyn Driver>, stitchpool::driver::Error> {
    match CudaDriver::open() {
        Ok(cuda) => Ok(cuda),
        Err(error) if error.kind == ErrorKind::Unavailable => Ok(HostDriver::new(HostConfig::default())?),
        Err(error) => Err(error),
    }
}

impl Sequence {
    fn new(pool: &Pool, stream: StreamId, dice: &mut Dice) -> Result<Self, Error> {
        let request = Request::new(PROMPT_BLOCKS * BLOCK_BYTES, stream);
        let cache = pool.growable_in_steps(&request, BLOCKS_MAX * BLOCK_BYTES, BLOCK_BYTES)?;
        Ok(Self { cache, blocks: PROMPT_BLOCKS, end_blocks: dice.length(), turns: 1 })
    }

    /// Another block of tokens; at the end of its turn the sequence keeps its prompt alone.
    fn step(&mut self, dice: &mut Dice) -> Result<(), Error> {
        if self.blocks < self.end_blocks {
            self.cache.back(self.blocks * BLOCK_BYTES, BLOCK_BYTES)?;
            self.blocks += 1;
            return Ok(());
        }
        self.end();
        (self.end_blocks, self.turns) = (dice.length(), self.turns + 1);
        Ok(())
    }

    fn end(&mut self) {
        let tail_bytes = (self.blocks - PROMPT_BLOCKS) * BLOCK_BYTES;
        match self.cache.give_back(PROMPT_BLOCKS * BLOCK_BYTES, tail_bytes) {
            Ok(_) => self.blocks = PROMPT_BLOCKS,
            Err(error) => eprintln!("the tail stays: {error}"),
        }
    }

    fn picture(&self) -> String {
        let is_backed = |block: u64| self.cache.backed().iter().any(|run| run.contains(&(block * BLOCK_BYTES)));
        (0..BLOCKS_MAX).map(|block| if is_backed(block) { '#' } else { '.' }).collect()
    }
}

/// Lengths that are the same in each run.
struct Dice(u64);

impl Dice {
    fn length(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        PROMPT_BLOCKS + 1 + (self.0 >> 33) % (BLOCKS_MAX - PROMPT_BLOCKS)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let driver = open()?;
    println!("on the {} driver, at most {} MiB of it", driver.name(), LIMIT_BYTES / MIB);
    let settings = Settings { devices: vec![DeviceId(0)], limit_bytes: Some(LIMIT_BYTES), ..Settings::default() };
    let pool = Pool::new(driver, settings)?;
    let stream = pool.register(RawStream { device: DeviceId(0), value: 0 })?;
    let mut dice = Dice(7);
    let mut sequences = Vec::new();
    for _ in 0..SEQUENCES {
        sequences.push(Sequence::new(&pool, stream, &mut dice)?);
    }
    let addresses: Vec<_> = sequences.iter().map(|sequence| sequence.cache.address()).collect();
    let (mut put_off, mut most_bytes) = (0, 0);
    for step in 1..=STEPS {
        for index in 0..sequences.len() {
            match sequences[index].step(&mut dice) {
                // The longest one starts its turn again: its tail is enough for many blocks.
                Err(Error::OutOfMemory(_)) => {
                    if let Some(longest) = sequences.iter_mut().max_by_key(|sequence| sequence.blocks) {
                        longest.end();
                    }
                    put_off += 1;
                }
                outcome => outcome?,
            }
        }
        most_bytes = most_bytes.max(sequences.iter().map(|sequence| sequence.cache.backed_bytes()).sum());
        if step % 60 == 0 {
            println!("\nafter {} tokens a sequence and more:", step * TOKENS);
            for sequence in &sequences {
                println!("{} {} turn {}", sequence.cache.address(), sequence.picture(), sequence.turns);
            }
        }
    }
    let same = sequences.iter().zip(&addresses).all(|(sequence, &at)| sequence.cache.address() == at);
    let (stats, device) = (pool.stats(), pool.stats().devices[0]);
    println!("\nmaxima together   {:>6} MiB of addresses", SEQUENCES * BLOCKS_MAX * BLOCK_BYTES / MIB);
    println!("most in use       {:>6} MiB", most_bytes / MIB);
    println!("most held         {:>6} MiB", device.physical_peak_bytes / MIB);
    println!("handles created   {:>6}", stats.handles_created);
    println!("handles moved     {:>6} (mapped where a sequence grew, without a copy)", stats.handles_aliased);
    println!("waits of the CPU  {:>6}", stats.cpu_waits);
    println!("turns put off     {:>6}, for want of memory", put_off);
    println!("addresses changed {:>6}", if same { "none" } else { "some" });
    drop(sequences);
    println!("given back        {:>6} MiB", pool.trim_and_wait()?.released_bytes / MIB);
    Ok(())
}
