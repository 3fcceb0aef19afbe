//! Candidates by size, and the rule that picks among them.

use crate::miss::candidate::Candidate;
use std::collections::BTreeMap;

/// Candidates, of which the last that came is picked first within its size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Victims {
    /// A size is present iff a candidate of it is.
    sizes: BTreeMap<u64, Vec<Candidate>>,
}

impl Victims {
    pub(crate) fn add(&mut self, candidate: Candidate) {
        self.sizes.entry(candidate.bytes).or_default().push(candidate);
    }

    /// All their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().map(|(bytes, same)| bytes * same.len() as u64).sum()
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&Candidate) -> bool) {
        self.sizes.retain(|_, same| {
            same.retain(&keep);
            !same.is_empty()
        });
    }

    /// The smallest that covers `bytes`, else the largest. With `exact` none that is larger.
    pub(crate) fn pick(&mut self, bytes: u64, exact: bool) -> Option<Candidate> {
        let covering = if exact { None } else { self.sizes.range(bytes..).next() };
        let size = *covering.or_else(|| self.sizes.range(..=bytes).next_back())?.0;
        let same = self.sizes.get_mut(&size)?;
        let picked = same.pop();
        if same.is_empty() {
            self.sizes.remove(&size);
        }
        picked
    }
}
