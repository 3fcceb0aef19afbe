//! An import together: a group of processes that import the same memory all or not at all. It knows no
//! memory and no socket.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How an offer is imported by a group of processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Together {
    /// How many processes there are.
    pub ranks: u32,
    /// How long the first to come waits for the last to have mapped all.
    pub within: Duration,
}

/// Processes that come too late to an attempt that was called off: they are told so, and begin no attempt that the
/// others know nothing of.
#[derive(Debug)]
pub(crate) struct Missed {
    left: usize,
    had_come: BTreeSet<u64>,
    why: String,
    until: Instant,
}

impl Missed {
    /// Why the attempt was called off that this visitor comes to, if it is one of those who were missed.
    pub(crate) fn meet(&mut self, visitor: u64, now: Instant) -> Option<String> {
        if self.left == 0 || now >= self.until || self.had_come.contains(&visitor) {
            return None;
        }
        self.left -= 1;
        self.had_come.insert(visitor);
        Some(self.why.clone())
    }
}

/// One attempt of a group: it ends with all of them, or with a refusal, at its deadline at the latest.
#[derive(Debug)]
pub(crate) struct Round {
    ranks: usize,
    pub(crate) ends: Instant,
    /// Who has begun to import.
    joined: BTreeSet<u64>,
    /// Who of these has mapped all.
    ready: BTreeSet<u64>,
}

impl Round {
    pub(crate) fn begin(together: Together, now: Instant) -> Self {
        let (joined, ready) = Default::default();
        Self { ranks: together.ranks as usize, ends: now + together.within, joined, ready }
    }

    /// False: all places are taken.
    pub(crate) fn join(&mut self, visitor: u64) -> bool {
        if self.joined.len() >= self.ranks && !self.joined.contains(&visitor) {
            return false;
        }
        self.joined.insert(visitor);
        true
    }

    pub(crate) fn has(&self, visitor: u64) -> bool {
        self.joined.contains(&visitor)
    }

    /// One more is ready; true: all are.
    pub(crate) fn note_ready(&mut self, visitor: u64) -> bool {
        self.ready.insert(visitor);
        self.ready.len() >= self.ranks
    }

    pub(crate) fn is_ready(&self, visitor: u64) -> bool {
        self.ready.contains(&visitor)
    }

    /// What is known of those who had not come when it was called off.
    pub(crate) fn missed(&self, why: &str) -> Missed {
        let left = self.ranks - self.joined.len();
        Missed { left, had_come: self.joined.clone(), why: why.into(), until: self.ends }
    }

    pub(crate) fn joined(&self) -> impl Iterator<Item = u64> + '_ {
        self.joined.iter().copied()
    }

    /// What is said of it at its deadline.
    pub(crate) fn shortfall(&self) -> String {
        format!("{} of {} processes were ready in time, {} had come", self.ready.len(), self.ranks, self.joined.len())
    }
}
