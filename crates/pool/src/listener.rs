//! Who is told before memory leaves its addresses and after it has come back. Called with no lock of the
//! pool held; what a listener does, or fails to do, never harms the pool.

use crate::arena::ArenaId;
use crate::error::{Error, Result};
use parking_lot::RwLock;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use stitchpool_chunks::Segment;
use stitchpool_driver::Address;

/// Somebody who holds memory by its handles, not by its address: a communicator that has registered it, a
/// network card, another process.
///
/// It may use the pool; what it asks for evicts nothing. Where two threads want the same memory away it may hear of
/// it twice. A panic counts as a failure, and goes no further.
pub trait Listener: Send + Sync {
    /// The memory is about to leave these addresses: deregister it.
    ///
    /// # Errors
    /// In words, why it may not; the operation is then refused and nothing has changed.
    fn before_leave(&self, segments: &[Segment]) -> std::result::Result<(), String>;

    /// There is memory at these addresses again, perhaps other handles: register it. Told too where the
    /// operation was given up after [`Listener::before_leave`]. The memory may be used by then, so another
    /// thread may already be moving it again.
    fn after_return(&self, segments: &[Segment]);
}

/// A listener of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerId(u64);

/// What a listener wants to hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interest {
    /// All of the pool's memory.
    #[default]
    Pool,
    /// The memory of an arena.
    Arena(ArenaId),
    /// What stands in an address range.
    Range {
        /// Where it begins.
        address: Address,
        /// How long it is.
        bytes: u64,
    },
}

impl Interest {
    fn holds(self, segment: &Segment, arena: Option<ArenaId>) -> bool {
        match self {
            Self::Pool => true,
            Self::Arena(wanted) => arena == Some(wanted),
            Self::Range { address, bytes } => {
                segment.at.0 < address.0.saturating_add(bytes) && address.0 < segment.at.0.saturating_add(segment.bytes)
            }
        }
    }
}

/// The listeners of a pool, in the order in which they came.
#[derive(Default)]
pub(crate) struct Listeners {
    entries: RwLock<Entries>,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    all: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    id: ListenerId,
    interest: Interest,
    listener: Arc<dyn Listener>,
}

/// So many listeners can be at a time.
const LISTENERS_MAX: usize = 4096;

impl Listeners {
    pub(crate) fn add(&self, listener: Arc<dyn Listener>, interest: Interest) -> Result<ListenerId> {
        let mut entries = self.entries.write();
        if entries.all.len() >= LISTENERS_MAX {
            let (what, count) = ("listeners", LISTENERS_MAX as u64);
            return Err(Error::TooMany { what, count, remedy: "let one listener hear of more, and unlisten" });
        }
        let id = ListenerId(entries.next_id);
        entries.next_id += 1;
        entries.all.push(Entry { id, interest, listener });
        Ok(id)
    }

    /// False: there is no such listener.
    pub(crate) fn remove(&self, id: ListenerId) -> bool {
        let mut entries = self.entries.write();
        let index = entries.all.iter().position(|entry| entry.id == id);
        let removed = index.map(|index| entries.all.remove(index));
        // What the listener does when it goes is done without the lock.
        drop(entries);
        removed.is_some()
    }

    /// Tells everybody concerned that memory is about to leave, up to the first who will not have it. Gives
    /// those who agreed, and [`Error::Vetoed`].
    pub(crate) fn before(
        &self,
        leaving: &[Segment],
        arena_of: impl Fn(&Segment) -> Option<ArenaId>,
    ) -> (Vec<ListenerId>, Result<()>) {
        let mut agreed = Vec::new();
        for (entry, segments) in self.concerned(leaving, arena_of) {
            let heard = catch_unwind(AssertUnwindSafe(|| entry.listener.before_leave(&segments)));
            if let Err(why) = heard.unwrap_or_else(|panic| Err(said(&*panic))) {
                return (agreed, Err(Error::Vetoed { why }));
            }
            agreed.push(entry.id);
        }
        (agreed, Ok(()))
    }

    /// Tells everybody concerned, or of them those in `among`, that memory is back.
    pub(crate) fn after(
        &self,
        returned: &[Segment],
        arena_of: impl Fn(&Segment) -> Option<ArenaId>,
        among: Option<&[ListenerId]>,
    ) {
        let concerned = self.concerned(returned, arena_of);
        let heard = concerned.iter().filter(|(entry, _)| among.is_none_or(|among| among.contains(&entry.id)));
        heard.for_each(|(entry, segments)| entry.tell_back(segments));
    }

    /// Who wants to hear of which segments. The lock is free again when anybody is told.
    fn concerned(
        &self,
        segments: &[Segment],
        arena_of: impl Fn(&Segment) -> Option<ArenaId>,
    ) -> Vec<(Entry, Vec<Segment>)> {
        let entries = self.entries.read().all.clone();
        let arenas: Vec<Option<ArenaId>> = match entries.is_empty() {
            true => Vec::new(),
            false => segments.iter().map(arena_of).collect(),
        };
        let of_entry = |entry: Entry| {
            let held = segments.iter().zip(&arenas).filter(|(segment, arena)| entry.interest.holds(segment, **arena));
            let heard: Vec<Segment> = held.map(|(segment, _)| *segment).collect();
            (!heard.is_empty()).then_some((entry, heard))
        };
        entries.into_iter().filter_map(of_entry).collect()
    }
}

impl Entry {
    fn tell_back(&self, segments: &[Segment]) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.listener.after_return(segments))) {
            tracing::warn!(why = said(&*panic), listener = self.id.0, "a listener panicked when memory came back");
        }
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without a word"))
}
