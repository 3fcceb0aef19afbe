//! How many blocks there were of each size and of each lifetime, by powers of two.

use crate::replay::script::Script;
use serde::Serialize;
use stitchpool_trace::Op;

/// The blocks of a trace by size and by lifetime.
#[derive(Debug, Serialize)]
pub struct Histograms {
    /// By what was asked for, scaled; in bytes.
    pub sizes: Vec<Bin>,
    /// By time from allocation to free, in microseconds: those that were freed, and were not there before the trace.
    pub lifetimes: Vec<Bin>,
    /// Blocks that were still live at the end, those from before the trace included.
    pub still_live: u64,
}

/// Blocks of like size or lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The lowest value: 0, or a power of two. The next bin's is the first above.
    pub from: u64,
    /// How many blocks.
    pub blocks: u64,
    /// Bytes asked for by all of them.
    pub bytes: u64,
}

/// Blocks by power of two: place 0 for 0, place n + 1 for values from 2^n on.
struct Counts([Bin; 65]);

impl Counts {
    fn new() -> Self {
        Self(std::array::from_fn(|place| Bin { from: place.checked_sub(1).map_or(0, |n| 1 << n), ..Bin::default() }))
    }

    fn add(&mut self, value: u64, bytes: u64) {
        let bin = &mut self.0[value.checked_ilog2().map_or(0, |log| log as usize + 1)];
        bin.blocks += 1;
        bin.bytes = bin.bytes.saturating_add(bytes);
    }

    /// From the first that has any to the last.
    fn bins(self) -> Vec<Bin> {
        let has_any = |bin: &Bin| bin.blocks > 0;
        let first = self.0.iter().position(has_any).unwrap_or(0);
        let end = self.0.iter().rposition(has_any).map_or(0, |last| last + 1);
        self.0.get(first..end).unwrap_or_default().to_vec()
    }
}

impl Histograms {
    /// Counts the blocks of one playing.
    pub fn of(script: &Script) -> Self {
        let (mut sizes, mut lifetimes) = (Counts::new(), Counts::new());
        let mut still_live = 0;
        for device in &script.devices {
            // By number: when it began (not known of those from before), and its size.
            let mut blocks: Vec<(Option<u64>, u64)> =
                device.initial.iter().map(|block| (None, script.scaled(block.size_bytes))).collect();
            still_live += blocks.len() as u64;
            for step in &device.steps {
                match step.op {
                    Op::Alloc { size_bytes, .. } => {
                        let bytes = script.scaled(size_bytes);
                        sizes.add(bytes, bytes);
                        blocks.push((Some(step.time_us), bytes));
                        still_live += 1;
                    }
                    Op::Free { id } | Op::FreeRequested { id } => {
                        still_live -= 1;
                        if let (Some(begin_us), bytes) = blocks[id as usize] {
                            lifetimes.add(step.time_us.saturating_sub(begin_us), bytes);
                        }
                    }
                    Op::FreeCompleted { .. } => {}
                }
            }
        }
        Self { sizes: sizes.bins(), lifetimes: lifetimes.bins(), still_live }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_the_bin_of_their_highest_bit() {
        let mut counts = Counts::new();
        [4, 7, 8, 31].iter().for_each(|&value| counts.add(value, 10));
        let bins: Vec<(u64, u64)> = counts.bins().iter().map(|bin| (bin.from, bin.blocks)).collect();
        assert_eq!(bins, [(4, 2), (8, 1), (16, 1)]);
        let mut ends = Counts::new();
        ends.add(0, 1);
        ends.add(u64::MAX, 1);
        assert_eq!((ends.0[0].blocks, ends.0[64].blocks), (1, 1));
        assert!(Counts::new().bins().is_empty());
    }
}
