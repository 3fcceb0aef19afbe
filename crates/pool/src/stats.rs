//! What a pool holds and has done, in figures.

use crate::holdings::Holdings;

/// Figures of one pool. Bytes that are live, free, pending, stranded and quarantined stand apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// One entry a device.
    pub devices: Vec<DeviceStats>,
    /// Requests served.
    pub allocs: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Requests that found no free extent.
    pub misses: u64,
    /// Handles created since the pool was built.
    pub handles_created: u64,
    /// Handles released.
    pub handles_released: u64,
    /// Handles taken from one place to another by an alias.
    pub handles_aliased: u64,
    /// Mappings taken down.
    pub handles_unmapped: u64,
    /// Mappings that were left by their handle and wait to be taken down.
    pub stale_mappings: u64,
    /// Times that one stream was made to wait for another.
    pub stream_waits: u64,
    /// Times that the CPU waited for the GPU.
    pub cpu_waits: u64,
    /// Bytes created beyond the highest live bytes at that time.
    pub forced_bytes: u64,
    /// Blocks that were put out because memory was short.
    pub evictions: u64,
    /// Memory that was freed by that, in bytes.
    pub evicted_bytes: u64,
    /// Memory that was taken to bring such blocks back, in bytes.
    pub returned_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Host memory that the pool takes for itself.
    pub metadata_bytes: u64,
    /// Things the driver refused to take back.
    pub quarantined: u64,
}

impl Stats {
    /// Requests served without a driver call.
    #[must_use]
    pub const fn hits(&self) -> u64 {
        self.allocs.saturating_sub(self.misses)
    }
}

/// Figures of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStats {
    /// What holds its memory now.
    pub holdings: Holdings,
    /// The most physical bytes the pool ever held.
    pub physical_peak_bytes: u64,
    /// The highest live bytes, lowered by decay.
    pub live_peak_bytes: u64,
}
