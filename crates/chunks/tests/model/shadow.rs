//! What a range should hold, written for clarity alone.

use crate::bench::reaches;
use crate::call::RANGE;
use std::collections::BTreeMap;
use stitchpool_driver::{DeviceId, Grant, RawHandle, Rights};

/// A handle's name, device and granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub raw: RawHandle,
    pub device: u16,
    pub granules: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    pub chunk: Chunk,
    pub rights: BTreeMap<DeviceId, Rights>,
}

/// Mappings by their first granule.
#[derive(Clone, Debug, Default)]
pub struct Shadow(pub BTreeMap<u64, Mapped>);

impl Shadow {
    /// The mapping over a granule, and where it starts.
    pub fn over(&self, place: u64) -> Option<(u64, &Mapped)> {
        let (&start, mapped) = self.0.range(..=place).next_back()?;
        (place < start + mapped.chunk.granules).then_some((start, mapped))
    }

    pub fn is_empty(&self, place: u64, granules: u64) -> bool {
        granules > 0
            && place + granules <= RANGE
            && (place..place + granules).all(|granule| self.over(granule).is_none())
    }

    /// Whether these granules are whole mappings without a hole.
    pub fn is_run(&self, place: u64, granules: u64) -> bool {
        let end = place + granules;
        let covered = end <= RANGE && (place..end).all(|granule| self.over(granule).is_some());
        let is_border = |at: u64| self.over(at).is_none_or(|(start, _)| start == at);
        granules > 0 && covered && is_border(place) && (end == RANGE || is_border(end))
    }

    pub fn grown(&self) -> u64 {
        let mut end = 0;
        while let Some((_, mapped)) = self.over(end) {
            end += mapped.chunk.granules;
        }
        end
    }

    pub fn put(&mut self, place: u64, chunks: &[Chunk], grants: &[Grant]) {
        let mut at = place;
        for &chunk in chunks {
            let rights = grants.iter().map(|grant| (grant.device, grant.rights)).collect();
            self.0.insert(at, Mapped { chunk, rights });
            at += chunk.granules;
        }
    }

    pub fn take(&mut self, place: u64, granules: u64) -> Vec<Mapped> {
        let starts: Vec<u64> = self.0.range(place..place + granules).map(|(&start, _)| start).collect();
        starts.iter().filter_map(|start| self.0.remove(start)).collect()
    }
}

/// Whether all these devices reach memory of `owner`; to take rights away is to name a device too.
pub fn all_reach(grants: &[Grant], owner: u16) -> bool {
    grants.iter().all(|grant| reaches(grant.device.0, owner))
}
