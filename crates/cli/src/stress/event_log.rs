//! The last things that a thread did, for when something goes wrong.

use std::collections::VecDeque;
use std::fmt;
use stitchpool_pool::Block;

/// A thread's last events.
#[derive(Default)]
pub struct EventLog {
    events: VecDeque<Event>,
}

/// One thing that was done.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its place among the events of all threads.
    pub number: u64,
    /// Which thread.
    pub thread: usize,
    /// What.
    pub what: &'static str,
    /// With which block.
    pub block: Option<Block>,
    /// More about it: a stream, or a refusal's words.
    pub note: String,
}

const EVENTS_MAX: usize = 256;

impl EventLog {
    /// Notes an event; the oldest goes where there are too many.
    pub fn keep(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// What is kept, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} thread {}: {}", self.number, self.thread, self.what)?;
        if let Some(Block { address, bytes }) = self.block {
            write!(f, " {address} +{bytes}")?;
        }
        if self.note.is_empty() { Ok(()) } else { write!(f, " ({})", self.note) }
    }
}
