//! Work for devices to do: what tests, stress and replay queue on streams. The pool never sees it.

use crate::{Address, DeviceId, RawStream, Result};

/// Queues simple work on streams of a driver. Everything runs in stream order, as late as the
/// streams allow; nothing here waits but [`Kernels::finish_stream`].
pub trait Kernels: Send + Sync {
    /// A new stream in the device's primary context.
    fn create_stream(&self, device: DeviceId) -> Result<RawStream>;

    /// Destroys a stream; work queued on it still runs.
    ///
    /// # Safety
    /// - `stream` came from `create_stream` and is live.
    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()>;

    /// Queues a write: 64-bit word number `i` from `at` becomes [`pattern_word`]`(seed, i)`.
    ///
    /// # Safety
    /// - `at` and `bytes` are multiples of 16.
    /// - The range stays mapped and open for writing to the stream's device until the work is done.
    unsafe fn fill(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) -> Result<()>;

    /// Queues a check of what `fill` wrote; what it finds is in [`Kernels::tally`] once it has run.
    ///
    /// # Safety
    /// - As for `fill`, open for reading.
    unsafe fn verify(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) -> Result<()>;

    /// Queues about so many microseconds of nothing.
    ///
    /// # Safety
    /// - `stream` is live.
    unsafe fn delay(&self, stream: RawStream, micros: u64) -> Result<()>;

    /// Waits (the CPU) until all that is queued on `stream` is done.
    ///
    /// # Safety
    /// - `stream` is live.
    unsafe fn finish_stream(&self, stream: RawStream) -> Result<()>;

    /// What all finished checks found, since the driver was opened.
    fn tally(&self) -> Result<Tally>;
}

/// What checks found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes compared.
    pub checked_bytes: u64,
    /// Bytes in words that differed.
    pub wrong_bytes: u64,
    /// Work that touched addresses without mapping or rights (host driver only: on a GPU such work
    /// kills the context). Each entry says which.
    pub faults: Vec<String>,
}

/// The word that stands at position `index` of a pattern.
#[must_use]
#[inline]
pub const fn pattern_word(seed: u64, index: u64) -> u64 {
    (seed ^ (seed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
