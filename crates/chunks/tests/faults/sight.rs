//! All that can be seen of a stage: mappings, bytes, rights, handles.

use crate::bench::{DEVICES, GRANULE};
use crate::change::{RANGE, Stage};
use stitchpool_chunks::StitchedRange;
use stitchpool_driver::{RawHandle, Rights};

/// What is behind one granule: handle and granule in it, the word, and every device's rights.
type Granule = Option<(RawHandle, u64, Option<u64>, Vec<Rights>)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    granules: Vec<Granule>,
    pictures: [String; 2],
    spares: Vec<RawHandle>,
    handles: u64,
    mappings: u64,
}

impl Sight {
    pub fn of(stage: &Stage) -> Self {
        let look = |range: &StitchedRange| -> Vec<Granule> {
            let granule = |place: u64| {
                let segment = *range.segments(place * GRANULE, GRANULE).ok()?.first()?;
                let rights = (0..DEVICES).map(|device| stage.bench.rights(device, segment.at)).collect();
                Some((segment.handle, segment.offset_bytes / GRANULE, stage.bench.read(segment.at), rights))
            };
            (0..RANGE).map(granule).collect()
        };
        let ledger = stage.bench.host.ledger();
        Self {
            granules: look(&stage.range).into_iter().chain(look(&stage.other)).collect(),
            pictures: [stage.range.picture(), stage.other.picture()],
            spares: stage.spares.iter().map(|spare| spare.raw()).collect(),
            handles: ledger.handles,
            mappings: ledger.mappings,
        }
    }

    /// Whether what stands here stood there too, with the same bytes and rights, or is new memory that
    /// would not go again.
    pub fn is_left_of(&self, before: &Self) -> bool {
        let kept = |(now, then): (&Granule, &Granule)| match now {
            Some((handle, ..)) => now == then || before.spares.contains(handle),
            None => true,
        };
        self.granules.iter().zip(&before.granules).all(kept)
    }

    pub const fn has_all_handles_of(&self, before: &Self) -> bool {
        self.handles == before.handles
    }
}
