//! One stream's queue. It knows its own order and nothing of other streams.

use super::order::Frontier;
use super::work::Work;
use crate::{Capture, RawStream};
use std::collections::VecDeque;
use std::sync::Arc;

/// A stream, alive or destroyed with work left.
#[derive(Debug)]
pub(super) struct Lane {
    /// What the stream is or was called.
    pub(super) stream: RawStream,
    pub(super) destroyed: bool,
    /// While set, nothing of it runs.
    pub(super) stalled: bool,
    pub(super) capture: Capture,
    /// Work that an open capture has recorded.
    pub(super) captured: Vec<Work>,
    queue: VecDeque<Item>,
    /// Items done since the stream was made. Items run in order, so this is also the last one's number.
    pub(super) done: u64,
    /// When the last item's time is over, on a clock that lags.
    pub(super) free_at_us: u64,
}

/// Queued work, with its place in the driver's one order.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) work: Work,
    pub(super) sequence: u64,
    /// When it may run, on a clock that lags.
    pub(super) ready_us: u64,
    /// What it comes after, where order is watched.
    pub(super) after: Option<Arc<Frontier>>,
}

impl Lane {
    pub(super) fn new(stream: RawStream) -> Self {
        Self {
            stream,
            destroyed: false,
            stalled: false,
            capture: Capture::None,
            captured: Vec::new(),
            queue: VecDeque::new(),
            done: 0,
            free_at_us: 0,
        }
    }

    pub(super) fn push(&mut self, item: Item) {
        self.queue.push_back(item);
    }

    pub(super) fn head(&self) -> Option<&Item> {
        self.queue.front()
    }

    /// What is queued, in order.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.queue.iter()
    }

    /// Takes the next item out and counts it as done.
    pub(super) fn pop(&mut self) -> Option<Item> {
        let item = self.queue.pop_front()?;
        self.done += 1;
        Some(item)
    }

    /// How many items are queued.
    pub(super) fn queued(&self) -> u64 {
        self.queue.len() as u64
    }

    /// The number of the last item queued so far.
    pub(super) fn last(&self) -> u64 {
        self.done + self.queued()
    }
}
