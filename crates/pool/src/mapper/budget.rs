//! How much of a device the pool has, may have, and has reason to have. Pure arithmetic.

use crate::mapper::slack::Slack;

/// What the pool holds on one device, and what it was needed for.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) granule_bytes: u64,
    /// The pool may hold so much and no more.
    pub(crate) limit_bytes: u64,
    /// So much below the limit, forced growth ends.
    pub(crate) headroom_bytes: u64,
    /// Created and not yet released.
    physical_bytes: u64,
    physical_peak_bytes: u64,
    /// The highest live bytes in this window and the one before.
    live_peaks_bytes: [u64; 2],
    window_start_us: u64,
    pub(crate) slack: Slack,
}

/// The growth beyond the highest live bytes that is allowed before another stream's memory is waited
/// for: at least this, or a hundredth.
const TOLERANCE_MIN_BYTES: u64 = 128 << 20;

impl Budget {
    pub(crate) fn new(granule_bytes: u64, limit_bytes: u64, headroom_bytes: u64) -> Self {
        Self {
            granule_bytes,
            limit_bytes,
            headroom_bytes,
            physical_bytes: 0,
            physical_peak_bytes: 0,
            live_peaks_bytes: [0; 2],
            window_start_us: 0,
            slack: Slack::default(),
        }
    }

    pub(crate) const fn physical_bytes(&self) -> u64 {
        self.physical_bytes
    }

    pub(crate) const fn physical_peak_bytes(&self) -> u64 {
        self.physical_peak_bytes
    }

    pub(crate) fn created(&mut self, bytes: u64) {
        self.physical_bytes += bytes;
        self.physical_peak_bytes = self.physical_peak_bytes.max(self.physical_bytes);
    }

    pub(crate) const fn reset_peak(&mut self) {
        self.physical_peak_bytes = self.physical_bytes;
    }

    pub(crate) fn released(&mut self, bytes: u64) {
        self.physical_bytes = self.physical_bytes.saturating_sub(bytes);
    }

    /// The highest live bytes so far, lowered by decay.
    pub(crate) fn live_peak_bytes(&self) -> u64 {
        self.live_peaks_bytes[0].max(self.live_peaks_bytes[1])
    }

    /// Takes note of live bytes. True when an old peak has just been forgotten.
    pub(crate) fn note_live(&mut self, live_bytes: u64, now_us: u64, decay_us: u64) -> bool {
        let mut forgotten = false;
        if now_us.saturating_sub(self.window_start_us) >= decay_us {
            let old = self.live_peak_bytes();
            self.live_peaks_bytes = [live_bytes, self.live_peaks_bytes[0]];
            self.window_start_us = now_us;
            self.slack.forget();
            forgotten = self.live_peak_bytes() < old;
        }
        self.live_peaks_bytes[0] = self.live_peaks_bytes[0].max(live_bytes);
        forgotten
    }

    /// How far creation may go before handles are stolen.
    pub(crate) fn calm_bytes(&self) -> u64 {
        (self.live_peak_bytes() + self.slack.bytes()).next_multiple_of(self.granule_bytes).min(self.limit_bytes)
    }

    /// How far creation may go before another stream is waited for.
    pub(crate) fn tolerated_bytes(&self) -> u64 {
        let peak = self.live_peak_bytes() + self.slack.bytes();
        let tolerated = peak + (peak / 100).max(TOLERANCE_MIN_BYTES);
        if tolerated > self.limit_bytes.saturating_sub(self.headroom_bytes) { self.calm_bytes() } else { tolerated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_peak_is_forgotten_after_two_windows() {
        let mut budget = Budget::new(2 << 20, 1 << 40, 0);
        assert!(!budget.note_live(100 << 20, 0, 1000));
        assert!(!budget.note_live(10 << 20, 1000, 1000), "the peak is in the window before");
        assert_eq!(budget.live_peak_bytes(), 100 << 20);
        assert!(budget.note_live(10 << 20, 2000, 1000));
        assert_eq!(budget.live_peak_bytes(), 10 << 20);
    }

    #[test]
    fn no_tolerance_close_to_the_limit() {
        let mut budget = Budget::new(2 << 20, 1000 << 20, 0);
        budget.note_live(500 << 20, 0, u64::MAX);
        assert_eq!(budget.tolerated_bytes(), 628 << 20);
        budget.note_live(950 << 20, 0, u64::MAX);
        assert_eq!(budget.tolerated_bytes(), 950 << 20);
    }
}
