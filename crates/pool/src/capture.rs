//! Which streams are being captured, and which arenas belong to graphs: a graph writes at their addresses
//! whenever it is replayed, so nobody takes their memory. It moves none, and asks no driver.

use crate::arena::ArenaId;
use crate::clock::Clock;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The open captures and the arenas of graphs.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    /// By the stream's serial.
    open: BTreeMap<u32, Capture>,
    /// How many graphs an arena has, never 0: so many releases make it an ordinary one.
    graphs: BTreeMap<ArenaId, u32>,
    /// Captures that were ended on the driver's word, until the application ends them too: it may just be about to.
    ended: BTreeMap<u32, ArenaId>,
}

/// An open capture of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    pub(crate) clock: Arc<Clock>,
    pub(crate) arena: ArenaId,
    /// Whether the driver has confirmed it: if it then says that there is none, it has ended.
    pub(crate) seen: bool,
}

impl Capture {
    pub(crate) fn serial(&self) -> u32 {
        self.clock.serial()
    }
}

impl Captures {
    /// Opens a capture. The streams that join while one is open in the arena belong to the same graph.
    pub(crate) fn open(&mut self, capture: Capture) {
        if !self.is_open(capture.arena) {
            *self.graphs.entry(capture.arena).or_default() += 1;
        }
        self.ended.remove(&capture.clock.serial());
        capture.clock.set_arena(capture.arena);
        self.open.insert(capture.clock.serial(), capture);
    }

    /// Ends a stream's capture. The graph's arena stays one.
    pub(crate) fn end(&mut self, serial: u32) -> Option<Capture> {
        let ended = self.open.remove(&serial)?;
        ended.clock.set_arena(ArenaId::DEFAULT);
        Some(ended)
    }

    /// A capture was ended on the driver's word.
    pub(crate) fn note_ended(&mut self, capture: &Capture) {
        self.ended.insert(capture.serial(), capture.arena);
    }

    /// The arena of a stream's capture that was ended on the driver's word; the application knows by now.
    pub(crate) fn take_ended(&mut self, serial: u32) -> Option<ArenaId> {
        self.ended.remove(&serial)
    }

    /// One graph of the arena is gone. True: that was the last.
    pub(crate) fn release(&mut self, arena: ArenaId) -> Option<bool> {
        let graphs = self.graphs.get_mut(&arena)?;
        *graphs -= 1;
        let last = *graphs == 0;
        if last {
            self.graphs.remove(&arena);
        }
        Some(last)
    }

    /// The open capture of a stream.
    pub(crate) fn of(&self, serial: u32) -> Option<&Capture> {
        self.open.get(&serial)
    }

    /// The driver says that the stream is being captured.
    pub(crate) fn confirm(&mut self, serial: u32) {
        if let Some(capture) = self.open.get_mut(&serial) {
            capture.seen = true;
        }
    }

    /// Every open capture.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Capture> {
        self.open.values()
    }

    /// Whether a stream is being captured into the arena.
    pub(crate) fn is_open(&self, arena: ArenaId) -> bool {
        self.all().any(|capture| capture.arena == arena)
    }

    /// How many graphs have memory in the arena.
    pub(crate) fn graphs(&self, arena: ArenaId) -> u32 {
        self.graphs.get(&arena).copied().unwrap_or(0)
    }

    /// Whether nobody may take the arena's memory, because a graph uses it.
    pub(crate) fn is_graph(&self, arena: ArenaId) -> bool {
        self.graphs.contains_key(&arena)
    }

    /// Whether any arena belongs to a graph.
    pub(crate) fn has_graphs(&self) -> bool {
        !self.graphs.is_empty()
    }

    /// Whether a request of this stream, served in this arena, must do nothing that a capture does not stand.
    pub(crate) fn restrain(&self, clock: &Clock, arena: ArenaId) -> bool {
        clock.is_captured() || self.is_open(arena)
    }

    /// Tells every stream whether it must be quiet: those that are captured, and while any is, legacy ones.
    pub(crate) fn hush<'a>(&self, clocks: impl Iterator<Item = &'a Arc<Clock>>) {
        for clock in clocks {
            let quiet = self.open.contains_key(&clock.serial()) || (clock.is_legacy() && !self.open.is_empty());
            if clock.is_quiet() != quiet {
                clock.set_quiet(quiet);
            }
        }
    }

    /// Refuses what would break an open capture, if one is.
    ///
    /// # Errors
    /// [`Error::Capturing`].
    pub(crate) fn refuse(&self, operation: &'static str) -> Result<()> {
        match self.open.keys().next() {
            Some(&serial) => Err(Error::Capturing { serial, operation }),
            None => Ok(()),
        }
    }

    /// Checks the invariants at the fields.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        for (serial, capture) in &self.open {
            if capture.clock.serial() != *serial || capture.clock.arena() != capture.arena || !capture.clock.is_quiet()
            {
                return Err(format!("the clock of stream {serial} does not know of its capture"));
            }
            if !self.is_graph(capture.arena) {
                return Err(format!("stream {serial} is captured into {:?}, which has no graph", capture.arena));
            }
        }
        let idle = self.graphs.iter().find(|(_, graphs)| **graphs == 0);
        idle.map_or(Ok(()), |(arena, _)| Err(format!("{arena:?} is counted without a graph")))
    }
}
