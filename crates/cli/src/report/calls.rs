//! What the driver was asked over time, verb by verb, and which requests waited longest for it.

use super::packed::Packed;
use super::span::Span;
use serde::Serialize;
use std::collections::BTreeMap;
use stitchpool_driver::{Spent, Verb};

/// Calls and their cost, by verb and bin.
#[derive(Debug)]
pub struct Calls {
    span: Span,
    by_verb: BTreeMap<Verb, Vec<VerbBin>>,
    read: Spent,
    /// The requests that cost most, dearest first; so many at most.
    stalls: Vec<Stall>,
}

/// A request that had to wait for the driver.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Stall {
    /// When, in microseconds since the run began.
    pub time_us: u64,
    /// The script's number of the device.
    pub device: usize,
    /// What was asked for.
    pub bytes: u64,
    /// Price of its driver calls, in microseconds.
    pub cost_us: f64,
    /// Handles created for it.
    pub created: u64,
    /// Handles mapped for it, created or moved.
    pub mapped: u64,
    /// Mappings taken down on the way.
    pub unmapped: u64,
}

/// Calls as the page reads them.
#[derive(Debug, Serialize)]
pub struct PackedCalls {
    /// How many bins there are.
    bins: usize,
    /// Calls and microseconds in each bin, by verb.
    verbs: BTreeMap<&'static str, PackedVerb>,
    /// The requests that cost most, dearest first.
    stalls: Vec<Stall>,
}

#[derive(Debug, Serialize)]
struct PackedVerb {
    calls: Packed<u32>,
    cost_us: Packed<f32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct VerbBin {
    calls: u64,
    cost_us: f64,
}

const STALLS_MAX: usize = 12;

impl Calls {
    /// No call yet.
    pub fn new(span: Span) -> Self {
        Self { span, by_verb: BTreeMap::new(), read: Spent::default(), stalls: Vec::new() }
    }

    /// Counts what was asked since the last time; it was asked at `time_us`. Gives just that.
    pub fn count(&mut self, time_us: u64, spent: Spent) -> Spent {
        let since = spent.since(&self.read);
        let bin = self.span.bin(time_us);
        for (verb, spent) in since.by_verb().filter(|(_, spent)| spent.calls > 0) {
            let bins = self.by_verb.entry(verb).or_insert_with(|| vec![VerbBin::default(); self.span.bins]);
            bins[bin].calls += spent.calls;
            bins[bin].cost_us += spent.cost_us;
        }
        self.read = spent;
        since
    }

    /// Takes note of a request that cost something.
    pub fn note(&mut self, stall: Stall) {
        let rank = self.stalls.partition_point(|other| other.cost_us >= stall.cost_us);
        if rank < STALLS_MAX {
            self.stalls.truncate(STALLS_MAX - 1);
            self.stalls.insert(rank, stall);
        }
    }

    /// The whole of it.
    pub fn pack(self) -> PackedCalls {
        let pack = |bins: Vec<VerbBin>| PackedVerb {
            calls: Packed(bins.iter().map(|bin| u32::try_from(bin.calls).unwrap_or(u32::MAX)).collect()),
            cost_us: Packed(bins.iter().map(|bin| bin.cost_us as f32).collect()),
        };
        let verbs = self.by_verb.into_iter().map(|(verb, bins)| (verb.word(), pack(bins))).collect();
        PackedCalls { bins: self.span.bins, verbs, stalls: self.stalls }
    }
}
