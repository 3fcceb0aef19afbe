//! A slot: a place in a chain, for one mapped handle, and what stands there now.

use crate::clock::Fence;
use crate::mapper::backup::Content;
use std::sync::Arc;
use stitchpool_chunks::{Mapping, PhysicalHandle, Vacancy};
use stitchpool_driver::{Address, DeviceId, Error};

/// A place in a chain.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Its handle is in use here: its bytes are in blocks, extents or pending blocks of the heap.
    Current {
        /// What stands here.
        mapping: Mapping,
        /// Points that earlier users of the memory, under other addresses, must be past.
        carried: Vec<Fence>,
    },
    /// The handle was stolen from here; its bytes are nobody's until it is unmapped.
    Stale {
        /// What still stands here.
        mapping: Mapping,
        /// Points after which no work uses these addresses.
        fences: Vec<Fence>,
    },
    /// A view of a handle that is current elsewhere, in a block that the view holds.
    Viewed(Mapping),
    /// Its blocks are suspended: nothing stands here, and its bytes are in blocks and extents of the heap.
    Asleep {
        /// The place that is kept for them.
        vacancy: Vacancy,
        /// Where the memory lay, and will lie again.
        device: DeviceId,
        /// What was in it.
        content: Content,
    },
    /// Nothing stands here any more.
    Hole(Vacancy),
    /// The driver refused to unmap; the mapping is in quarantine and the address gone for good.
    Lost {
        /// Where it was.
        at: Address,
        /// How long it was.
        bytes: u64,
    },
}

impl Slot {
    /// Its vacancy, if nothing stands here.
    pub(crate) fn into_hole(self) -> Option<Vacancy> {
        match self {
            Self::Hole(vacancy) => Some(vacancy),
            _ => None,
        }
    }

    pub(crate) fn at(&self) -> Address {
        match self {
            Self::Current { mapping, .. } | Self::Stale { mapping, .. } | Self::Viewed(mapping) => mapping.at(),
            Self::Hole(vacancy) | Self::Asleep { vacancy, .. } => vacancy.at(),
            Self::Lost { at, .. } => *at,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Current { mapping, .. } | Self::Stale { mapping, .. } | Self::Viewed(mapping) => mapping.bytes(),
            Self::Hole(vacancy) | Self::Asleep { vacancy, .. } => vacancy.bytes(),
            Self::Lost { bytes, .. } => *bytes,
        }
    }

    pub(crate) fn end(&self) -> Address {
        self.at() + self.bytes()
    }

    /// Whether its bytes are nobody's: no block, and nothing free, is in it.
    pub(crate) const fn is_nobodys(&self) -> bool {
        matches!(self, Self::Stale { .. } | Self::Hole(_) | Self::Lost { .. })
    }

    /// What it held, if it sleeps.
    pub(crate) const fn content(&self) -> Option<&Content> {
        match self {
            Self::Asleep { content, .. } => Some(content),
            _ => None,
        }
    }

    /// Points after which nothing uses what still stands here, if its handle is gone.
    pub(crate) fn fences(&self) -> Option<&[Fence]> {
        match self {
            Self::Stale { fences, .. } => Some(fences),
            _ => None,
        }
    }

    /// The mapping that stands here, in use or stale.
    pub(crate) const fn mapping(&self) -> Option<&Mapping> {
        match self {
            Self::Current { mapping, .. } | Self::Stale { mapping, .. } | Self::Viewed(mapping) => Some(mapping),
            Self::Hole(_) | Self::Asleep { .. } | Self::Lost { .. } => None,
        }
    }

    /// The mapping, if the handle is in use here.
    pub(crate) const fn current(&self) -> Option<&Mapping> {
        match self {
            Self::Current { mapping, .. } => Some(mapping),
            _ => None,
        }
    }

    /// Maps a handle here, if the slot sleeps, and gives what it held. On a refusal it sleeps on.
    pub(crate) fn wake(&mut self, handle: Arc<PhysicalHandle>) -> Result<Option<Content>, Error> {
        let lost = Self::Lost { at: self.at(), bytes: self.bytes() };
        let (changed, outcome) = match std::mem::replace(self, lost) {
            Self::Asleep { vacancy, device, content } => match vacancy.map(handle) {
                Ok(mapping) => (Self::Current { mapping, carried: Vec::new() }, Ok(Some(content))),
                Err((error, vacancy)) => (Self::Asleep { vacancy, device, content }, Err(error)),
            },
            other => (other, Ok(None)),
        };
        *self = changed;
        outcome
    }

    /// The mapping, if a block or a view uses it here.
    pub(crate) const fn in_use(&self) -> Option<&Mapping> {
        match self {
            Self::Current { mapping, .. } | Self::Viewed(mapping) => Some(mapping),
            _ => None,
        }
    }
}
