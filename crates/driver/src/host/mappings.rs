//! Mappings by address: what stands where, who may use it, and whose queued work names it.

use super::opened::Opened;
use super::physical::MemoryId;
use super::reservations::Shown;
use super::span::Span;
use crate::{Error, ErrorKind, Result, Rights, Verb};
use std::collections::BTreeMap;

/// All mappings by their first address; none overlaps another.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    all: BTreeMap<u64, Mapping>,
    mapped_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub(super) bytes: u64,
    pub(super) memory: MemoryId,
    pub(super) opened: Opened,
    /// When it was made, in the driver's one count of such things.
    pub(super) made: u64,
    /// Queued work that was queued after `made` and names these addresses.
    pub(super) named: u64,
}

impl Mappings {
    /// The mappings that share an address with the span, in order.
    pub(super) fn over(&self, span: Span) -> impl Iterator<Item = (Span, &Mapping)> {
        let first = self.all.range(..=span.at).next_back().filter(|(at, mapping)| **at + mapping.bytes > span.at);
        let start = first.map_or(span.at, |(at, _)| *at);
        let end = span.at.saturating_add(span.bytes).max(start);
        self.all.range(start..end).map(|(&at, mapping)| (Span { at, bytes: mapping.bytes }, mapping))
    }

    /// Lets `change` see each mapping that shares an address with the span.
    pub(super) fn each_over(&mut self, span: Span, mut change: impl FnMut(&mut Mapping)) {
        let Some(start) = self.over(span).next().map(|(first, _)| first.at) else { return };
        let end = span.at.saturating_add(span.bytes);
        self.all.range_mut(start..end).for_each(|(_, mapping)| change(mapping));
    }

    /// Refuses a span that is not a run of whole, neighbouring mappings.
    pub(super) fn demand_run(&self, verb: Verb, span: Span) -> Result<()> {
        let refused = |detail| Err(Error::new(verb, ErrorKind::InvalidValue, detail).of(span.bytes));
        if span.bytes == 0 {
            return refused("a run of 0 bytes".to_owned());
        }
        let mut reached = span.at;
        for (found, _) in self.over(span) {
            if found.at > reached {
                return refused(format!("{} has a hole at {reached:#x}", Shown(span)));
            }
            if found.at < span.at || found.end() > span.end() {
                return refused(format!("{} cuts the mapping {}; name it whole", Shown(span), Shown(found)));
            }
            reached = found.end();
        }
        if reached < span.end() { refused(format!("{} has a hole at {reached:#x}", Shown(span))) } else { Ok(()) }
    }

    /// Why somebody who needs `needs` on every byte of the span may not have it, if so.
    /// `may` says what is enough for one mapping.
    pub(super) fn obstacle(&self, span: Span, needs: Rights, may: impl Fn(&Mapping) -> bool) -> Option<String> {
        let mut reached = span.at;
        for (found, mapping) in self.over(span) {
            if found.at > reached {
                break;
            }
            if !may(mapping) {
                return Some(format!("the mapping {} is not open for {needs:?}", Shown(found)));
            }
            reached = found.end();
        }
        (reached < span.at.saturating_add(span.bytes)).then(|| format!("nothing is mapped at {reached:#x}"))
    }

    pub(super) fn insert(&mut self, at: u64, mapping: Mapping) {
        self.mapped_bytes += mapping.bytes;
        let before = self.all.insert(at, mapping);
        debug_assert!(before.is_none(), "the ledger looked before it mapped");
    }

    /// Takes out the mapping that begins at `at`.
    pub(super) fn remove(&mut self, at: u64) -> Option<Mapping> {
        let gone = self.all.remove(&at)?;
        self.mapped_bytes -= gone.bytes;
        Some(gone)
    }

    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    pub(super) fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }
}
