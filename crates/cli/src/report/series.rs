//! A figure over time, kept as its lowest and highest value in each bin, so that no peak is lost.

use super::packed::Packed;
use super::span::Span;
use serde::Serialize;

/// A figure in bytes that changes by steps. It is 0 until the first.
#[derive(Clone, Debug)]
pub struct Series {
    span: Span,
    /// Lowest and highest, of the bins up to the one of the last step.
    bins: Vec<(u64, u64)>,
    bytes: u64,
}

/// A series as the page reads it.
#[derive(Debug, Serialize)]
pub struct PackedSeries {
    /// Values count so many bytes.
    unit_bytes: u64,
    /// The lowest of each bin, rounded down.
    low: Packed<u32>,
    /// The highest of each bin, rounded up.
    high: Packed<u32>,
}

/// The unit that blocks and handles are whole numbers of: values are exact below 2 TiB.
const UNIT_BYTES: u64 = 512;

impl Series {
    /// Nothing yet.
    pub const fn new(span: Span) -> Self {
        Self { span, bins: Vec::new(), bytes: 0 }
    }

    /// From `time_us` on it is `bytes`. Times do not go back.
    pub fn step(&mut self, time_us: u64, bytes: u64) {
        self.reach(self.span.bin(time_us));
        self.bytes = bytes;
        if let Some((low, high)) = self.bins.last_mut() {
            (*low, *high) = ((*low).min(bytes), (*high).max(bytes));
        }
    }

    /// The highest value of all.
    pub fn peak_bytes(&self) -> u64 {
        self.bins.iter().map(|&(_, high)| high).max().unwrap_or(0)
    }

    /// The whole of it.
    pub fn pack(mut self) -> PackedSeries {
        self.reach(self.span.bins - 1);
        let mut unit_bytes = UNIT_BYTES;
        while self.peak_bytes().div_ceil(unit_bytes) > u64::from(u32::MAX) {
            unit_bytes *= 2;
        }
        let packed = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        PackedSeries {
            unit_bytes,
            low: Packed(self.bins.iter().map(|&(low, _)| packed(low / unit_bytes)).collect()),
            high: Packed(self.bins.iter().map(|&(_, high)| packed(high.div_ceil(unit_bytes))).collect()),
        }
    }

    /// Opens the bins up to this one with the value of now.
    fn reach(&mut self, bin: usize) {
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, (self.bytes, self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(steps: &[(u64, u64)], span: Span) -> (u64, Vec<u32>, Vec<u32>) {
        let mut series = Series::new(span);
        steps.iter().for_each(|&(time_us, bytes)| series.step(time_us, bytes));
        let packed = series.pack();
        (packed.unit_bytes, packed.low.0, packed.high.0)
    }

    #[test]
    fn a_peak_inside_a_bin_is_kept_and_later_bins_go_on_from_the_last_value() {
        let span = Span { duration_us: 39, bins: 4 };
        let steps = [(0, 512), (11, 5120), (12, 1024), (13, 2048), (35, 0)];
        assert_eq!(packed(&steps, span), (512, vec![0, 1, 4, 0], vec![1, 10, 4, 4]));
    }

    #[test]
    fn values_too_large_for_the_unit_get_a_larger_one() {
        let (unit_bytes, low, high) = packed(&[(0, 8 << 40)], Span { duration_us: 0, bins: 1 });
        assert!(u64::from(high[0]) * unit_bytes >= 8 << 40 && low[0] == 0 && unit_bytes == 4096);
    }
}
