//! A key-value cache in which sequences share a prompt: each reads one contiguous range, the prompt and then its own
//! tail, and the prompt's memory is there once. The range is read-only; a sequence writes its tail at the tail's own
//! address, so none can spoil what the others read.
//!
//! `cargo run --example shared_prefix`: on a GPU where there is one, else on the host driver.

#[path = "devices/mod.rs"]
mod devices;

use devices::Devices;
use stitchpool::driver::{Address, DeviceId, Grant, RawStream, Rights};
use stitchpool::{Block, Part, Pool, Request, Settings, StreamId, View};

const MIB: u64 = 1 << 20;
const HERE: DeviceId = DeviceId(0);
const PROMPT_BYTES: u64 = 48 * MIB;
const TAIL_BYTES: u64 = 8 * MIB;
const SEQUENCES: u64 = 6;
const PROMPT_SEED: u64 = 1 << 32;

/// One conversation, on a stream of its own.
struct Sequence {
    raw: RawStream,
    tail: Block,
    /// The prompt and the tail, one behind the other.
    cache: View,
    prompt_bytes: u64,
    number: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let devices = Devices::open(1)?;
    // Parts of a view are whole handles: with small ones a prompt can be cut nearly anywhere.
    let pool = Pool::new(devices.driver.clone(), Settings { handle_bytes_max: 2 * MIB, ..Settings::default() })?;
    let (writer, stream) = registered(&devices, &pool)?;
    let prompt = pool.alloc(&Request::new(PROMPT_BYTES, stream).exclusive())?;
    fill(&devices, writer, prompt.address, prompt.bytes, PROMPT_SEED)?;
    // SAFETY: the stream lives. The sequences' streams come after.
    unsafe { devices.kernels.finish_stream(writer)? };

    let sequences = (0..SEQUENCES).map(|number| Sequence::new(&devices, &pool, prompt, number));
    let sequences = sequences.collect::<Result<Vec<_>, _>>()?;
    for sequence in &sequences {
        sequence.write(&devices)?;
        sequence.read(&devices)?;
        let cache = &sequence.cache;
        println!("sequence {}: {} MiB at {}", sequence.number, cache.bytes() / MIB, cache.address());
    }
    let read_bytes: u64 = sequences.iter().map(|sequence| sequence.cache.bytes()).sum();
    let held_bytes = pool.stats().devices[0].holdings.physical_bytes;

    // The prompt may be freed while it is read: it goes with the last sequence.
    pool.free(prompt.address)?;
    for sequence in sequences {
        sequence.read(&devices)?;
        let tail = sequence.tail.address;
        drop(sequence.cache);
        pool.free(tail)?;
    }
    let given_bytes = pool.trim_and_wait()?.released_bytes;
    println!("{} MiB of caches in {} MiB of memory", read_bytes / MIB, held_bytes / MIB);
    println!("{}; {} MiB given back at the end", devices.verdict()?, given_bytes / MIB);
    Ok(())
}

fn registered(devices: &Devices, pool: &Pool) -> Result<(RawStream, StreamId), Box<dyn std::error::Error>> {
    let raw = devices.kernels.create_stream(HERE)?;
    Ok((raw, pool.register(raw)?))
}

impl Sequence {
    /// A sequence that shares the prompt, the later ones less of it.
    fn new(devices: &Devices, pool: &Pool, prompt: Block, number: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let (raw, stream) = registered(devices, pool)?;
        let prompt_bytes = PROMPT_BYTES - number * 4 * MIB;
        let tail = pool.alloc(&Request::new(TAIL_BYTES, stream).exclusive())?;
        let parts = [Part { address: prompt.address, bytes: prompt_bytes }, tail.into()];
        let cache = pool.view(&parts, &[Grant { device: HERE, rights: Rights::Read }])?;
        cache.record_use(stream)?;
        Ok(Self { raw, tail, cache, prompt_bytes, number })
    }

    fn write(&self, devices: &Devices) -> stitchpool::driver::Result<()> {
        fill(devices, self.raw, self.tail.address, self.tail.bytes, self.number)
    }

    /// Reads all of the cache at the addresses of the view.
    fn read(&self, devices: &Devices) -> stitchpool::driver::Result<()> {
        let tail = self.cache.address() + self.prompt_bytes;
        verify(devices, self.raw, self.cache.address(), self.prompt_bytes, PROMPT_SEED)?;
        verify(devices, self.raw, tail, self.tail.bytes, self.number)
    }
}

fn fill(devices: &Devices, on: RawStream, at: Address, bytes: u64, seed: u64) -> stitchpool::driver::Result<()> {
    // SAFETY: the block is live, and may be written.
    unsafe { devices.kernels.fill(on, at, bytes, seed) }
}

fn verify(devices: &Devices, on: RawStream, at: Address, bytes: u64, seed: u64) -> stitchpool::driver::Result<()> {
    // SAFETY: the view stands until this stream is past, and may be read.
    unsafe { devices.kernels.verify(on, at, bytes, seed) }
}
