//! Work for tests, stress and replay: how `fill`, `verify` and `delay` are cut into launches. The
//! kernels themselves belong to each device's workshop; the pool never sees either.

use super::CudaDriver;
use super::context::Entered;
use super::workshop::Workshop;
use crate::{Address, DeviceId, Error, ErrorKind, Kernels, RawStream, Result, Tally, Verb, pattern_word};

/// Threads of a block.
const BLOCK_THREADS: u32 = 256;
/// Blocks for each multiprocessor; more would only queue, since the threads stride.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 8;
/// One word of the pattern.
const WORD_BYTES: u64 = 8;
/// What one thread reads or writes at a time.
const PAIR_BYTES: u64 = 16;
/// The longest delay of one kernel: longer ones are split, so that no watchdog of a display ends them.
const DELAY_KERNEL_US: u64 = 500_000;
/// The longest delay of one call.
const DELAY_MAX_US: u64 = 60_000_000;

/// Refuses what the kernels cannot cut into pairs.
fn pairs(at: Address, bytes: u64) -> Result<u64> {
    if at.is_aligned(PAIR_BYTES) && bytes.is_multiple_of(PAIR_BYTES) {
        return Ok(bytes / PAIR_BYTES);
    }
    let detail = format!("address {at} and size {bytes} must be multiples of {PAIR_BYTES} bytes");
    Err(Error::new(Verb::Kernel, ErrorKind::InvalidValue, detail).of(bytes))
}

/// First word of the pattern, and the distance from each word to the next: all that the kernels know of it.
fn first_and_step(seed: u64) -> (u64, u64) {
    let first = pattern_word(seed, 0);
    (first, pattern_word(seed, 1).wrapping_sub(first))
}

/// One kernel's work on a range: what `fill` and `verify` have in common.
struct Pattern {
    grid: (u32, u32),
    arguments: [u64; 4],
}

impl CudaDriver {
    /// `None` where there is nothing to do.
    fn pattern(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) -> Result<Option<Pattern>> {
        let pairs = pairs(at, bytes)?;
        if pairs == 0 {
            return Ok(None);
        }
        let most = self.place(Verb::Kernel, stream.device)?.device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
        let blocks = pairs.div_ceil(u64::from(BLOCK_THREADS)).min(u64::from(most)) as u32;
        let (first, step) = first_and_step(seed);
        Ok(Some(Pattern { grid: (blocks, BLOCK_THREADS), arguments: [at.0, pairs, first, step] }))
    }

    fn in_workshop(&self, id: DeviceId, work: impl FnOnce(&Entered<'_>, &Workshop) -> Result<()>) -> Result<()> {
        let place = self.place(Verb::Kernel, id)?;
        let entered = place.enter(&self.cuda, Verb::Kernel)?;
        place.workshop(&entered).and_then(|workshop| work(&entered, workshop)).map_err(|error| error.on(id))
    }
}

impl Kernels for CudaDriver {
    fn create_stream(&self, device: DeviceId) -> Result<RawStream> {
        self.enter(Verb::Kernel, device)?.create_stream().map_err(|error| error.on(device))
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()> {
        let entered = self.enter(Verb::Kernel, stream.device)?;
        // SAFETY: the caller answers for `stream`.
        unsafe { entered.destroy_stream(stream) }.map_err(|error| error.on(stream.device))
    }

    unsafe fn fill(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) -> Result<()> {
        let Some(pattern) = self.pattern(stream, at, bytes, seed)? else { return Ok(()) };
        self.in_workshop(stream.device, |entered, workshop| {
            // SAFETY: `fill` takes these four words; the caller answers for the range and the stream.
            unsafe { entered.launch(stream, workshop.fill, pattern.grid, &pattern.arguments) }
        })
    }

    unsafe fn verify(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) -> Result<()> {
        let Some(pattern) = self.pattern(stream, at, bytes, seed)? else { return Ok(()) };
        self.in_workshop(stream.device, |entered, workshop| {
            let [at, pairs, first, step] = pattern.arguments;
            let arguments = [at, pairs, first, step, workshop.counters];
            // SAFETY: `verify` takes these five words; the counters live as long as this driver; the caller
            // answers for the range and the stream.
            unsafe { entered.launch(stream, workshop.verify, pattern.grid, &arguments) }
        })
    }

    unsafe fn delay(&self, stream: RawStream, micros: u64) -> Result<()> {
        if micros > DELAY_MAX_US {
            let detail = format!("a delay of {micros} us is over the limit of {DELAY_MAX_US} us; queue several");
            return Err(Error::new(Verb::Kernel, ErrorKind::InvalidValue, detail).on(stream.device));
        }
        self.in_workshop(stream.device, |entered, workshop| {
            let mut left_us = micros;
            while left_us > 0 {
                let part_us = left_us.min(DELAY_KERNEL_US);
                // SAFETY: `delay` takes this one word and touches no memory; the caller answers for the stream.
                unsafe { entered.launch(stream, workshop.delay, (1, 1), &[part_us * 1000]) }?;
                left_us -= part_us;
            }
            Ok(())
        })
    }

    unsafe fn finish_stream(&self, stream: RawStream) -> Result<()> {
        let entered = self.enter(Verb::Kernel, stream.device)?;
        // SAFETY: the caller answers for `stream`.
        unsafe { entered.finish_stream(stream) }.map_err(|error| error.on(stream.device))
    }

    fn tally(&self) -> Result<Tally> {
        let mut tally = Tally::default();
        for place in &self.places {
            let Some(workshop) = place.workshop_if_any() else { continue };
            let entered = place.enter(&self.cuda, Verb::Kernel)?;
            let [wrong, checked] = workshop.counted(&entered).map_err(|error| error.on(place.id()))?;
            tally.wrong_bytes += wrong * WORD_BYTES;
            tally.checked_bytes += checked * WORD_BYTES;
        }
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn first_and_step_give_every_word_of_the_pattern() {
        for seed in [0, 1, 0xdead_beef, u64::MAX] {
            let (first, step) = first_and_step(seed);
            for index in [0, 1, 2, 1023, 1 << 40, u64::MAX] {
                assert_eq!(first.wrapping_add(index.wrapping_mul(step)), pattern_word(seed, index));
            }
        }
    }

    #[test]
    fn a_range_that_cannot_be_cut_into_pairs_is_refused_with_its_figures() {
        assert_eq!(pairs(Address(0x1000), 64), Ok(4));
        for (at, bytes) in [(0x1008, 64), (0x1000, 24)] {
            let error = pairs(Address(at), bytes).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidValue);
            assert!(error.detail.contains(&bytes.to_string()), "{}", error.detail);
        }
    }
}
