//! How much the recorded allocator itself held, from its segments and their events.

use crate::{DeviceTrace, EventKind};

impl DeviceTrace {
    /// The most bytes that the allocator held of the device at once, or `None` where the trace does not say.
    ///
    /// What it held before the first event is what it held at the end, less what the events added.
    #[must_use]
    pub fn peak_reserved_bytes(&self) -> Option<u64> {
        let changes = self.events.iter().filter_map(|event| {
            let bytes = i128::from(event.size_bytes);
            match event.kind {
                EventKind::SegmentAlloc | EventKind::SegmentMap => Some(bytes),
                EventKind::SegmentFree | EventKind::SegmentUnmap => Some(-bytes),
                _ => None,
            }
        });
        let (mut sum, mut peak, mut lowest, mut count) = (0_i128, 0_i128, 0_i128, 0_usize);
        for change in changes {
            sum += change;
            peak = peak.max(sum);
            lowest = lowest.min(sum);
            count += 1;
        }
        if count == 0 && self.segments.is_empty() {
            return None;
        }
        let end: i128 = self.segments.iter().map(|segment| i128::from(segment.total_bytes)).sum();
        // Segments may be missing from the end; then at least what was given back had been there.
        let start = (end - sum).max(-lowest);
        Some(u64::try_from(start + peak).unwrap_or(u64::MAX))
    }
}
