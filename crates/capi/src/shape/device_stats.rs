//! A pool's figures of one device.

use super::device::number_of;
use crate::record::Record;
use stitchpool_pool::DeviceStats;

/// `stitchpool_device_stats`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CDeviceStats {
    pub struct_size: usize,
    pub device: i32,
    pub reserved: u32,
    pub limit_bytes: u64,
    pub physical_bytes: u64,
    pub live_bytes: u64,
    pub free_bytes: u64,
    pub pending_bytes: u64,
    pub stranded_bytes: u64,
    pub quarantined_bytes: u64,
    pub device_free_bytes: u64,
    pub physical_peak_bytes: u64,
    pub live_peak_bytes: u64,
    pub suspended_bytes: u64,
    pub backup_bytes: u64,
    pub pinned_bytes: u64,
    pub kept_bytes: u64,
}

// SAFETY: the size, then numbers, without padding.
unsafe impl Record for CDeviceStats {
    const NAME: &'static str = "stitchpool_device_stats";
    const FIRST_BYTES: usize = 96;
}

impl CDeviceStats {
    pub(crate) fn of(stats: &DeviceStats) -> Self {
        let holdings = &stats.holdings;
        Self {
            struct_size: size_of::<Self>(),
            device: number_of(holdings.device),
            reserved: 0,
            limit_bytes: holdings.limit_bytes,
            physical_bytes: holdings.physical_bytes,
            live_bytes: holdings.live_bytes,
            free_bytes: holdings.free_bytes,
            pending_bytes: holdings.pending_bytes,
            stranded_bytes: holdings.stranded_bytes,
            quarantined_bytes: holdings.quarantined_bytes,
            device_free_bytes: holdings.device_free_bytes.unwrap_or(u64::MAX),
            physical_peak_bytes: stats.physical_peak_bytes,
            live_peak_bytes: stats.live_peak_bytes,
            suspended_bytes: holdings.suspended_bytes,
            backup_bytes: holdings.backup_bytes,
            pinned_bytes: holdings.pinned_bytes,
            kept_bytes: holdings.kept_bytes,
        }
    }
}
