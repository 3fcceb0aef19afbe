//! The time of a run, cut into equal bins. It holds no figures.

/// A stretch of time from 0 on, and how many bins it is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its length in microseconds.
    pub duration_us: u64,
    /// Its bins, at least one.
    pub bins: usize,
}

impl Span {
    /// The bin that a time is in; what is later is in the last.
    pub fn bin(self, time_us: u64) -> usize {
        let bin = u128::from(time_us) * self.bins as u128 / (u128::from(self.duration_us) + 1);
        usize::try_from(bin).unwrap_or(usize::MAX).min(self.bins - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fill_the_bins_evenly_and_in_order() {
        for (duration_us, bins) in [(0, 1), (0, 5), (9, 10), (999, 7), (3, 16)] {
            let span = Span { duration_us, bins };
            let mut times = vec![0_u64; bins];
            (0..=duration_us).for_each(|time_us| times[span.bin(time_us)] += 1);
            let even = (duration_us + 1) / bins as u64;
            assert!(times.iter().all(|&times| times == even || times == even + 1), "{times:?} in {span:?}");
            assert!((1..=duration_us).all(|time_us| span.bin(time_us - 1) <= span.bin(time_us)), "{span:?}");
        }
        assert_eq!(Span { duration_us: 10, bins: 4 }.bin(u64::MAX), 3);
    }
}
