//! How much the recorded allocator itself held, from its segments and their events.

use crate::{DeviceTrace, EventKind};

/// What the recorded allocator held of the device from a moment on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// Microseconds since the first event of the file.
    pub time_us: u64,
    /// Bytes held.
    pub bytes: u64,
}

impl DeviceTrace {
    /// The most bytes that the allocator held of the device at once, or `None` where the trace does not say.
    #[must_use]
    pub fn peak_reserved_bytes(&self) -> Option<u64> {
        let (start_bytes, changes) = self.reserved()?;
        let peak = changes.iter().map(|&(_, sum)| sum).max().unwrap_or(0).max(0);
        Some(held(start_bytes + peak))
    }

    /// What the allocator held over time: at the beginning, and after each change. Empty where the trace does not say.
    ///
    /// What it held before the first event is what it held at the end, less what the events added.
    #[must_use]
    pub fn reserved_over_time(&self) -> Vec<Reserved> {
        let Some((start_bytes, changes)) = self.reserved() else { return Vec::new() };
        let all = std::iter::once((0, 0)).chain(changes);
        all.map(|(time_us, sum)| Reserved { time_us, bytes: held(start_bytes + sum) }).collect()
    }

    /// What it held at the beginning, and how much more (or less) than that after each change.
    fn reserved(&self) -> Option<(i128, Vec<(u64, i128)>)> {
        let mut sum = 0;
        let changes: Vec<(u64, i128)> = self
            .events
            .iter()
            .filter_map(|event| {
                let bytes = i128::from(event.size_bytes);
                sum += match event.kind {
                    EventKind::SegmentAlloc | EventKind::SegmentMap => bytes,
                    EventKind::SegmentFree | EventKind::SegmentUnmap => -bytes,
                    _ => return None,
                };
                Some((event.time_us, sum))
            })
            .collect();
        if changes.is_empty() && self.segments.is_empty() {
            return None;
        }
        let end: i128 = self.segments.iter().map(|segment| i128::from(segment.total_bytes)).sum();
        let lowest = changes.iter().map(|&(_, sum)| sum).min().unwrap_or(0).min(0);
        // Segments may be missing from the end; then at least what was given back had been there.
        Some(((end - sum).max(-lowest), changes))
    }
}

fn held(bytes: i128) -> u64 {
    u64::try_from(bytes).unwrap_or(if bytes < 0 { 0 } else { u64::MAX })
}
