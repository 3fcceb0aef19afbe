//! A part of a stitched range: what stands at its addresses.

use crate::{Mapping, Vacancy};
use stitchpool_driver::{Address, Grant};

#[derive(Debug)]
pub(super) enum Part {
    Vacant(Vacancy),
    Mapped(Opened),
    /// The driver refused to unmap here; the address is gone for good.
    Lost {
        at: Address,
        bytes: u64,
    },
}

/// A mapping with the rights that were asked for over it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) mapping: Mapping,
    pub(super) grants: Vec<Grant>,
}

impl Part {
    pub(super) fn span(&self) -> (Address, u64) {
        match self {
            Self::Vacant(vacancy) => (vacancy.at(), vacancy.bytes()),
            Self::Mapped(Opened { mapping, .. }) => (mapping.at(), mapping.bytes()),
            Self::Lost { at, bytes } => (*at, *bytes),
        }
    }

    pub(super) fn end(&self) -> Address {
        let (at, bytes) = self.span();
        at + bytes
    }

    pub(super) const fn opened(&self) -> Option<&Opened> {
        match self {
            Self::Mapped(opened) => Some(opened),
            _ => None,
        }
    }
}

impl Opened {
    /// Notes rights that were given; devices not named keep theirs.
    pub(super) fn note(&mut self, given: &[Grant]) {
        for grant in given {
            match self.grants.iter_mut().find(|held| held.device == grant.device) {
                Some(held) => held.rights = grant.rights,
                None => self.grants.push(*grant),
            }
        }
    }
}
