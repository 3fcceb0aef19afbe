//! A pool's figures.

use crate::record::Record;
use stitchpool_pool::{Holdings, Stats};

/// `stitchpool_stats`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CStats {
    pub struct_size: usize,
    pub allocs: u64,
    pub frees: u64,
    pub hits: u64,
    pub misses: u64,
    pub handles_created: u64,
    pub handles_released: u64,
    pub handles_aliased: u64,
    pub handles_unmapped: u64,
    pub stale_mappings: u64,
    pub stream_waits: u64,
    pub cpu_waits: u64,
    pub live_blocks: u64,
    pub quarantined: u64,
    pub forced_bytes: u64,
    pub metadata_bytes: u64,
    pub physical_bytes: u64,
    pub live_bytes: u64,
    pub free_bytes: u64,
    pub pending_bytes: u64,
    pub stranded_bytes: u64,
    pub quarantined_bytes: u64,
    pub suspended_bytes: u64,
    pub backup_bytes: u64,
    pub pinned_bytes: u64,
    pub kept_bytes: u64,
    pub evictions: u64,
    pub evicted_bytes: u64,
    pub returned_bytes: u64,
}

// SAFETY: the size, then numbers, without padding.
unsafe impl Record for CStats {
    const NAME: &'static str = "stitchpool_stats";
    const FIRST_BYTES: usize = 176;
}

impl CStats {
    pub(crate) fn of(stats: &Stats) -> Self {
        let sum = |bytes: fn(&Holdings) -> u64| stats.devices.iter().map(|device| bytes(&device.holdings)).sum();
        Self {
            struct_size: size_of::<Self>(),
            allocs: stats.allocs,
            frees: stats.frees,
            hits: stats.hits(),
            misses: stats.misses,
            handles_created: stats.handles_created,
            handles_released: stats.handles_released,
            handles_aliased: stats.handles_aliased,
            handles_unmapped: stats.handles_unmapped,
            stale_mappings: stats.stale_mappings,
            stream_waits: stats.stream_waits,
            cpu_waits: stats.cpu_waits,
            live_blocks: stats.live_blocks,
            quarantined: stats.quarantined,
            forced_bytes: stats.forced_bytes,
            metadata_bytes: stats.metadata_bytes,
            physical_bytes: sum(|holdings| holdings.physical_bytes),
            live_bytes: sum(|holdings| holdings.live_bytes),
            free_bytes: sum(|holdings| holdings.free_bytes),
            pending_bytes: sum(|holdings| holdings.pending_bytes),
            stranded_bytes: sum(|holdings| holdings.stranded_bytes),
            quarantined_bytes: sum(|holdings| holdings.quarantined_bytes),
            suspended_bytes: sum(|holdings| holdings.suspended_bytes),
            backup_bytes: sum(|holdings| holdings.backup_bytes),
            pinned_bytes: sum(|holdings| holdings.pinned_bytes),
            kept_bytes: sum(|holdings| holdings.kept_bytes),
            evictions: stats.evictions,
            evicted_bytes: stats.evicted_bytes,
            returned_bytes: stats.returned_bytes,
        }
    }
}
