//! Imports: memory of another process that is mapped here, for as long as that process lets it.

use crate::error::{Error, Result};
use crate::link::Link;
use crate::request::Request;
use crate::ticket::Ticket;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use stitchpool_chunks::{Mapping, Origin, synchronize};
use stitchpool_driver::{Address, DeviceId, Grant, Rights};
use stitchpool_pool::ExportedPart;

/// Memory of another process. Its clones are one import: the mappings go with the last of them.
///
/// The memory goes early if its exporter ends or recalls it, and the importer hears of that
/// ([`Importer::watch`](crate::Importer::watch) or [`poll`](crate::Importer::poll)): then every call here
/// is an error that says so. While a [`Hold`] lives it stays mapped all the same. Before the mappings go, all
/// work of the devices that may use them is awaited; who queues work without a hold asks first. None of these
/// devices' streams may be captured meanwhile.
#[derive(Clone, Debug)]
pub struct Import {
    pub(crate) shared: Arc<Shared>,
}

/// What the clones of an import share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ticket: Ticket,
    pub(crate) grants: Vec<Grant>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Here(Arc<Mapped>),
    Gone(Error),
}

/// Keeps imported memory mapped, whatever its exporter does.
#[derive(Clone, Debug)]
#[must_use = "the memory is held only while this lives"]
pub struct Hold {
    mapped: Arc<Mapped>,
}

/// The mappings themselves.
pub(crate) struct Mapped {
    pub(crate) origin: Arc<Origin>,
    pub(crate) link: Arc<Link>,
    pub(crate) generation: u64,
    /// Neighbours; empty only on the way down.
    pub(crate) run: Vec<Mapping>,
    pub(crate) at: Address,
    pub(crate) bytes: u64,
    pub(crate) parts: Vec<ExportedPart>,
    /// Whose work may use it.
    pub(crate) users: Vec<DeviceId>,
}

impl Import {
    pub(crate) fn new(ticket: Ticket, grants: Vec<Grant>, mapped: Mapped) -> Self {
        let state = Mutex::new(State::Here(Arc::new(mapped)));
        Self { shared: Arc::new(Shared { ticket, grants, state }) }
    }

    /// Keeps the memory mapped while work that uses it is prepared and queued.
    ///
    /// # Errors
    /// [`Error::Lost`] or [`Error::Recalled`] if it is gone.
    pub fn hold(&self) -> Result<Hold> {
        self.shared.hold()
    }

    /// Where the first part begins in this process.
    ///
    /// # Errors
    /// As [`hold`](Self::hold).
    pub fn address(&self) -> Result<Address> {
        Ok(self.hold()?.address())
    }

    /// How long the first part is, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.ticket.part_bytes()
    }

    /// Which offer of its exporter it is.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.shared.ticket.generation
    }

    /// The most that this process may do with it.
    #[must_use]
    pub fn rights(&self) -> Rights {
        highest(&self.shared.grants)
    }

    /// Why it is gone, if it is.
    #[must_use]
    pub fn gone(&self) -> Option<Error> {
        self.hold().err()
    }

    /// Whether two are one import.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Shared {
    pub(crate) fn hold(&self) -> Result<Hold> {
        match &*self.state.lock() {
            State::Here(mapped) => {
                mapped.link.home.demand()?;
                Ok(Hold { mapped: mapped.clone() })
            }
            State::Gone(why) => Err(why.clone()),
        }
    }

    /// From now on it is gone; the mappings go as soon as nobody holds them.
    pub(crate) fn leave(&self, why: Error) {
        let before = std::mem::replace(&mut *self.state.lock(), State::Gone(why));
        // The mappings go without the lock: that waits for devices.
        drop(before);
    }
}

impl Hold {
    /// Where the first part begins in this process.
    #[must_use]
    pub fn address(&self) -> Address {
        self.part(0).map_or(self.mapped.at, |(address, _)| address)
    }

    /// Where everything that is mapped begins: whole handles.
    #[must_use]
    pub fn mapped_address(&self) -> Address {
        self.mapped.at
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped.bytes
    }

    /// How many parts there are.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.mapped.parts.len()
    }

    /// Where a part begins here, and its length in bytes; in the order in which they were offered.
    #[must_use]
    pub fn part(&self, index: usize) -> Option<(Address, u64)> {
        let part = self.mapped.parts.get(index)?;
        Some((self.mapped.at + part.offset_bytes, part.bytes))
    }

    /// Where that is here which stands at `theirs` in the process that exported it.
    #[must_use]
    pub fn translate(&self, theirs: Address) -> Option<Address> {
        let inside = |part: &&ExportedPart| theirs.0.checked_sub(part.address.0).is_some_and(|from| from < part.bytes);
        let part = self.mapped.parts.iter().find(inside)?;
        Some(self.mapped.at + part.offset_bytes + theirs.bytes_from(part.address))
    }
}

/// The most that any grant gives.
pub(crate) fn highest(grants: &[Grant]) -> Rights {
    grants.iter().map(|grant| grant.rights).max().unwrap_or_default()
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if !self.link.home.is_here() {
            std::mem::forget(std::mem::take(&mut self.run));
            return;
        }
        let origin = &self.origin;
        if let Err(error) = self.users.iter().try_for_each(|&user| synchronize(origin, user)) {
            tracing::warn!(%error, "a device could not be waited for: imported memory stays mapped");
            // Work may still be using it: better lost than unmapped under it. The exporter hears nothing.
            std::mem::forget(std::mem::take(&mut self.run));
            return;
        }
        self.run.clear();
        if let Err(error) = self.link.say(&Request::Leave { generation: self.generation }) {
            tracing::debug!(%error, "the exporter does not hear that an import is gone");
        }
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("at", &self.at).field("bytes", &self.bytes).finish()
    }
}
