//! Random choices, all from one seed.

use stitchpool_driver::{DeviceId, ErrorKind, Fault, Verb};
use stitchpool_pool::{Placement, Request, StreamId};

/// Random choices of one thread.
pub struct Dice {
    source: fastrand::Rng,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Allocate and fill.
    Alloc,
    /// Verify and free.
    Free,
    /// Verify, and fill with another pattern.
    Rewrite,
    /// Let another stream verify, and perhaps fill.
    Lend,
    /// Let another stream use it last, and name that stream at the free.
    FreeElsewhere,
    /// Give a block to another thread.
    HandOver,
    /// Take a block from another thread.
    TakeOver,
    /// Keep a stream busy, so that the others get ahead of it.
    Delay,
    /// Ask the pool about a block.
    Ask,
    /// Give memory back.
    Trim,
    /// Wait, and give memory back.
    TrimAndWait,
    /// End the thread's own stream and begin another.
    ReplaceStream,
    /// Let calls of the driver fail.
    Fail,
}

/// How often each is chosen, in thousandths.
const WEIGHTS: [(Move, u32); 13] = [
    (Move::Alloc, 420),
    (Move::Free, 300),
    (Move::Rewrite, 60),
    (Move::Lend, 60),
    (Move::FreeElsewhere, 40),
    (Move::HandOver, 35),
    (Move::TakeOver, 35),
    (Move::Delay, 20),
    (Move::Ask, 14),
    (Move::Trim, 3),
    (Move::TrimAndWait, 1),
    (Move::ReplaceStream, 2),
    (Move::Fail, 10),
];

const SMALLEST_BYTES: u64 = 512;

impl Dice {
    /// Dice of the thread `index` of a run.
    pub fn new(seed: u64, index: u64) -> Self {
        Self { source: fastrand::Rng::with_seed(seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15)) }
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { self.source.usize(..end) }
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Any number.
    pub fn seed(&mut self) -> u64 {
        self.source.u64(..)
    }

    /// What to do next.
    pub fn next_move(&mut self) -> Move {
        let all: u32 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut left = self.source.u32(..all);
        let chosen = WEIGHTS.iter().find(|(_, weight)| {
            let is_here = left < *weight;
            left = left.saturating_sub(*weight);
            is_here
        });
        chosen.map_or(Move::Ask, |(chosen, _)| *chosen)
    }

    /// A size: each doubling is as likely as each other, up to `most_bytes`.
    pub fn size_bytes(&mut self, most_bytes: u64) -> u64 {
        let doublings = (most_bytes.max(SMALLEST_BYTES) / SMALLEST_BYTES).ilog2();
        let low = SMALLEST_BYTES << self.source.u32(..=doublings);
        (low + self.source.u64(..low)).min(most_bytes).max(1)
    }

    /// A request on `stream`, of `home`; placed over `devices` now and then.
    pub fn request(&mut self, most_bytes: u64, stream: StreamId, ground: &Ground<'_>) -> Request {
        let plain = Request::new(self.size_bytes(most_bytes), stream);
        match self.below(20) {
            0 | 1 => plain.aligned_to(1 << self.source.u32(9..=ground.granule_bytes.ilog2())),
            2 | 3 if ground.devices.len() > 1 => self.placed(plain, most_bytes, ground),
            4 if ground.devices.len() > 1 => plain.open_to(ground.devices),
            _ => plain,
        }
    }

    fn placed(&mut self, request: Request, most_bytes: u64, ground: &Ground<'_>) -> Request {
        let devices = ground.devices.to_vec();
        // Few stripes and, where shares are exact, few sizes: each makes a heap of its own.
        let few = 1 << self.below(3);
        let exact_bytes = (ground.granule_bytes * devices.len() as u64 * few).min(most_bytes);
        match self.below(3) {
            0 => request.placed(Placement::Spill(devices)),
            1 => request.placed(Placement::RoundRobin { devices, stripe_bytes: ground.granule_bytes * few }),
            _ => Request { bytes: exact_bytes, ..request }
                .placed(Placement::Weighted(devices.into_iter().zip(1..).collect())),
        }
    }

    /// A call that shall fail soon.
    pub fn fault(&mut self) -> Fault {
        const VERBS: [Verb; 12] = [
            Verb::Create,
            Verb::Create,
            Verb::Map,
            Verb::SetRights,
            Verb::Unmap,
            Verb::Release,
            Verb::Record,
            Verb::Wait,
            Verb::IsDone,
            Verb::Finish,
            Verb::Forget,
            Verb::Memory,
        ];
        const KINDS: [ErrorKind; 4] =
            [ErrorKind::OutOfMemory, ErrorKind::OutOfResources, ErrorKind::InvalidValue, ErrorKind::Unknown];
        let verb = Some(VERBS[self.below(VERBS.len())]);
        Fault { verb, nth: 1 + self.below(6) as u64, lasting: false, kind: KINDS[self.below(KINDS.len())] }
    }
}

/// What requests can be placed on.
pub struct Ground<'a> {
    /// Devices that reach each other.
    pub devices: &'a [DeviceId],
    /// The granule.
    pub granule_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_choices_and_another_thread_makes_others() {
        let rolls = |seed, index| {
            let mut dice = Dice::new(seed, index);
            (0..100).map(|_| (dice.next_move(), dice.size_bytes(1 << 28))).collect::<Vec<_>>()
        };
        assert_eq!(rolls(7, 0), rolls(7, 0));
        assert_ne!(rolls(7, 0), rolls(7, 1));
        assert_ne!(rolls(7, 0), rolls(8, 0));
    }

    #[test]
    fn sizes_stay_within_their_bound_and_reach_both_ends() {
        let mut dice = Dice::new(1, 0);
        let sizes: Vec<u64> = (0..10_000).map(|_| dice.size_bytes(300 << 20)).collect();
        assert!(sizes.iter().all(|&bytes| (512..=300 << 20).contains(&bytes)));
        assert!(sizes.iter().any(|&bytes| bytes < 1024) && sizes.iter().any(|&bytes| bytes > 200 << 20));
    }

    #[test]
    fn every_move_is_chosen_sooner_or_later() {
        let mut dice = Dice::new(3, 0);
        let moves: Vec<Move> = (0..20_000).map(|_| dice.next_move()).collect();
        for (wanted, _) in WEIGHTS {
            assert!(moves.contains(&wanted), "{wanted:?}");
        }
    }
}
