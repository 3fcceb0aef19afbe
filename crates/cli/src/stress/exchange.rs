//! Where threads leave blocks for each other.

use super::holding::Holding;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Blocks on their way from one thread to another.
#[derive(Default)]
pub struct Exchange {
    waiting: Mutex<VecDeque<Holding>>,
}

const WAITING_MAX: usize = 64;

impl Exchange {
    /// Leaves a block; gives it back where too many wait already.
    pub fn give(&self, holding: Holding) -> Option<Holding> {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            return Some(holding);
        }
        waiting.push_back(holding);
        None
    }

    /// Takes the block that waits longest.
    pub fn take(&self) -> Option<Holding> {
        self.waiting.lock().pop_front()
    }
}
