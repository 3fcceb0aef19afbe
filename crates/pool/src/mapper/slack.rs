//! How much more than the highest live bytes a device may hold before handles are moved: nothing, until
//! moving them has become a habit.

/// So many requests are watched before the share of misses among them is judged.
const WATCHED_ALLOCS: u64 = 16384;
/// More than one request in so many that moves handles is a habit.
const HABIT_PART: u64 = 125;
/// Once it was a habit, it must become so rare, or more slack follows.
const CURED_PART: u64 = 4096;
/// A habit is answered by this part of the highest live bytes, and again up to the second part.
const STEP_PART: u64 = 8;
const MOST_PART: u64 = 2;
/// Live bytes that rise by less than this part are no growth.
const GROWTH_PART: u64 = 64;

/// Steady random churn needs room between its blocks: without any, one request in a hundred moves
/// handles for ever, at hundreds of microseconds each. Recorded training runs move in one of a thousand
/// once they have grown, and get no slack.
#[derive(Debug, Default)]
pub(crate) struct Slack {
    bytes: u64,
    /// Requests of the pool when the watch began.
    since_allocs: u64,
    /// How many since then moved handles.
    moves: u64,
    /// The highest live bytes when the watch began.
    peak_bytes: u64,
}

impl Slack {
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes note of a miss: requests of the pool so far, its highest live bytes, and whether handles
    /// were moved.
    pub(crate) fn note(&mut self, allocs: u64, peak_bytes: u64, moved: bool) {
        let grown = peak_bytes > self.peak_bytes + self.peak_bytes / GROWTH_PART;
        self.moves += u64::from(moved);
        let watched = allocs.saturating_sub(self.since_allocs);
        if !grown && watched < WATCHED_ALLOCS {
            return;
        }
        let rare_part = if self.bytes == 0 { HABIT_PART } else { CURED_PART };
        if !grown && self.moves * rare_part > watched {
            self.bytes = (self.bytes + peak_bytes / STEP_PART).min(peak_bytes / MOST_PART);
            tracing::debug!(
                moves = self.moves,
                watched,
                bytes = self.bytes,
                "moving handles has become a habit: slack"
            );
        }
        *self = Self { bytes: self.bytes, since_allocs: allocs, moves: 0, peak_bytes };
    }

    /// What was allowed for a peak that is long past is no longer.
    pub(crate) const fn forget(&mut self) {
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes misses at every `every`-th of `allocs` requests.
    fn churn(slack: &mut Slack, from: u64, allocs: u64, every: u64, peak_bytes: u64) {
        for alloc in (from..from + allocs).step_by(usize::try_from(every).unwrap()) {
            slack.note(alloc, peak_bytes, true);
        }
    }

    #[test]
    fn a_run_that_still_grows_gets_none() {
        let mut slack = Slack::default();
        for round in 0..100 {
            churn(&mut slack, round * 4096, 4096, 10, (1 << 20) << (round / 2));
        }
        assert_eq!(slack.bytes(), 0);
    }

    #[test]
    fn rare_misses_get_none_and_a_habit_gets_an_eighth_at_a_time_up_to_half() {
        let peak_bytes = 1 << 30;
        let mut slack = Slack::default();
        churn(&mut slack, 0, 100_000, 1000, peak_bytes);
        assert_eq!(slack.bytes(), 0);
        churn(&mut slack, 100_000, 20_000, 60, peak_bytes);
        assert_eq!(slack.bytes(), peak_bytes / 8);
        churn(&mut slack, 120_000, 1_000_000, 1000, peak_bytes);
        assert_eq!(slack.bytes(), peak_bytes / 2);
        slack.forget();
        assert_eq!(slack.bytes(), 0);
    }
}
