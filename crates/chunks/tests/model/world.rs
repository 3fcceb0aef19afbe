//! Two ranges, handles that stand in none, in one or in both, and the shadow of all of it.

use crate::bench::{Bench, DEVICES, GRANULE, HANDLE_GRANULES};
use crate::call::{Call, RANGE};
use crate::shadow::{Chunk, Mapped, Shadow, all_reach};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stitchpool_chunks::{PhysicalHandle, Piece, Result, StitchedRange};
use stitchpool_driver::{DeviceId, Grant, RawHandle, Rights};

pub struct World {
    bench: Bench,
    ranges: Vec<(StitchedRange, Shadow)>,
    /// Handles that the application holds, whether they stand somewhere or not.
    spares: Vec<Arc<PhysicalHandle>>,
    /// What granules of handles hold, where somebody has written.
    words: BTreeMap<(RawHandle, u64), u64>,
}

/// The application holds at most so many handles.
const SPARES_MAX: usize = 12;

impl World {
    pub fn new() -> Self {
        let bench = Bench::new();
        let ranges = (0..2).map(|_| (bench.range(RANGE), Shadow::default())).collect();
        Self { bench, ranges, spares: Vec::new(), words: BTreeMap::new() }
    }

    /// Makes a call, and says how it ended and whether it should have succeeded.
    pub fn make(&mut self, call: &Call) -> (Result<()>, bool) {
        match call {
            Call::Create { device, granules } => {
                keep(&mut self.spares, vec![self.bench.handle(*device, *granules)]);
                (Ok(()), true)
            }
            Call::DropSpare { pick } => {
                if !self.spares.is_empty() {
                    self.spares.swap_remove(pick % self.spares.len());
                }
                (Ok(()), true)
            }
            Call::Stitch { range, place, pieces, grants } => self.stitch(*range, Some(*place), pieces, grants),
            Call::Grow { range, pieces, grants } => self.stitch(*range, None, pieces, grants),
            Call::StitchSpares { range, place, picks, grants } => self.stitch_spares(*range, *place, picks, grants),
            Call::Take { range, place, granules } => self.take(*range, Some(*place), *granules),
            Call::Shrink { range, granules } => self.take(*range, None, *granules),
            Call::Replace { range, place, picks } => self.replace(*range, *place, picks),
            Call::Open { range, place, granules, grants } => self.open(*range, *place, *granules, grants),
            Call::Write { range, place, word } => self.write(*range, *place, *word),
        }
    }

    fn picked(&self, picks: &[usize]) -> Vec<Arc<PhysicalHandle>> {
        let pick = |pick: &usize| self.spares.get(pick % self.spares.len().max(1)).cloned();
        picks.iter().filter_map(pick).collect()
    }

    /// New memory at a place, or behind what has grown from the start.
    fn stitch(
        &mut self,
        range: usize,
        place: Option<u64>,
        pieces: &[(u16, u64)],
        grants: &[Grant],
    ) -> (Result<()>, bool) {
        let (range, shadow) = &mut self.ranges[range];
        let wanted: Vec<Piece> =
            pieces.iter().map(|&(device, n)| Piece { device: DeviceId(device), bytes: n * GRANULE }).collect();
        let made = match place {
            Some(place) => range.stitch(place * GRANULE, &wanted, grants),
            None => range.grow(&wanted, grants),
        };
        let place = place.unwrap_or_else(|| shadow.grown());
        let granules = pieces.iter().map(|&(_, granules)| granules).sum();
        let whole = pieces.iter().all(|&(device, granules)| granules > 0 && all_reach(grants, device));
        let right = whole && shadow.is_empty(place, granules);
        if made.is_ok() {
            // The handles are new; their names are the driver's to choose.
            let segments = range.segments(place * GRANULE, granules * GRANULE).unwrap();
            let sizes = pieces.iter().flat_map(|&(device, granules)| cut(device, granules));
            let chunks: Vec<Chunk> = segments
                .iter()
                .zip(sizes)
                .map(|(segment, (device, granules))| Chunk { raw: segment.handle, device, granules })
                .collect();
            self.words.retain(|(raw, _), _| chunks.iter().all(|chunk| chunk.raw != *raw));
            shadow.put(place, &chunks, grants);
        }
        (made, right)
    }

    fn stitch_spares(&mut self, range: usize, place: u64, picks: &[usize], grants: &[Grant]) -> (Result<()>, bool) {
        let handles = self.picked(picks);
        let chunks: Vec<Chunk> = handles.iter().map(|handle| chunk(handle)).collect();
        let (range, shadow) = &mut self.ranges[range];
        let made = range.stitch_handles(place * GRANULE, handles, grants);
        let granules = chunks.iter().map(|chunk| chunk.granules).sum();
        let right = shadow.is_empty(place, granules) && chunks.iter().all(|chunk| all_reach(grants, chunk.device));
        if made.is_ok() {
            shadow.put(place, &chunks, grants);
        }
        (made, right)
    }

    /// Memory from a place, or from the end of what has grown from the start.
    fn take(&mut self, range: usize, place: Option<u64>, granules: u64) -> (Result<()>, bool) {
        let (range, shadow) = &mut self.ranges[range];
        let (taken, place) = match place {
            Some(place) => (range.take(place * GRANULE, granules * GRANULE), Some(place)),
            None => (range.shrink(granules * GRANULE), shadow.grown().checked_sub(granules)),
        };
        let right = place.is_some_and(|place| shadow.is_run(place, granules));
        let made = taken.map(|handles| {
            let expected = shadow.take(place.unwrap(), granules);
            assert_eq!(handles.iter().map(|h| chunk(h)).collect::<Vec<_>>(), chunks(&expected));
            keep(&mut self.spares, handles);
        });
        (made, right)
    }

    fn replace(&mut self, range: usize, place: u64, picks: &[usize]) -> (Result<()>, bool) {
        let handles = self.picked(picks);
        let new: Vec<Chunk> = handles.iter().map(|handle| chunk(handle)).collect();
        let granules = new.iter().map(|chunk| chunk.granules).sum();
        let (range, shadow) = &mut self.ranges[range];
        let old: Vec<Mapped> = shadow.0.range(place..place + granules).map(|(_, mapped)| mapped.clone()).collect();
        let same_sizes = old.iter().map(|mapped| mapped.chunk.granules).eq(new.iter().map(|chunk| chunk.granules));
        let grants: Vec<Vec<Grant>> = (0..new.len())
            .map(|index| if same_sizes { old.get(index) } else { old.first() }.map_or_else(Vec::new, grants_of))
            .collect();
        let reached = new.iter().zip(&grants).all(|(chunk, grants)| all_reach(grants, chunk.device));
        let right = shadow.is_run(place, granules) && reached;
        let made = range.replace(place * GRANULE, handles).map(|handles| {
            assert_eq!(handles.iter().map(|h| chunk(h)).collect::<Vec<_>>(), chunks(&old));
            shadow.take(place, granules);
            let mut at = place;
            for (chunk, grants) in new.iter().zip(&grants) {
                shadow.put(at, &[*chunk], grants);
                at += chunk.granules;
            }
            keep(&mut self.spares, handles);
        });
        (made, right)
    }

    fn open(&mut self, range: usize, place: u64, granules: u64, grants: &[Grant]) -> (Result<()>, bool) {
        let (range, shadow) = &mut self.ranges[range];
        let made = range.open(place * GRANULE, granules * GRANULE, grants);
        let mut owners = shadow.0.range(place..place + granules).map(|(_, mapped)| mapped.chunk.device);
        let right = owners.all(|owner| all_reach(grants, owner)) && shadow.is_run(place, granules);
        if made.is_ok() {
            for (_, mapped) in shadow.0.range_mut(place..place + granules) {
                mapped.rights.extend(grants.iter().map(|grant| (grant.device, grant.rights)));
            }
        }
        (made, right)
    }

    fn write(&mut self, range: usize, place: u64, word: u64) -> (Result<()>, bool) {
        let (range, shadow) = &self.ranges[range];
        let mapped = shadow.over(place).filter(|(_, mapped)| best(mapped) == Rights::ReadWrite);
        assert_eq!(self.bench.write(range.at() + place * GRANULE, word), mapped.is_some());
        if let Some((start, mapped)) = mapped {
            self.words.insert((mapped.chunk.raw, place - start), word);
        }
        (Ok(()), true)
    }

    /// Mappings, pictures, lengths, bytes and the ledger agree.
    pub fn inspect(&self) {
        for (range, shadow) in &self.ranges {
            range.check().unwrap();
            assert_eq!(range.picture(), picture(shadow));
            let mapped: u64 = shadow.0.values().map(|mapped| mapped.chunk.granules).sum();
            assert_eq!(range.mapped_bytes(), mapped * GRANULE);
            assert_eq!(range.grown_bytes(), shadow.grown() * GRANULE);
            assert_eq!(range.segments(0, RANGE * GRANULE).is_ok(), mapped == RANGE);
            for (&start, mapped) in &shadow.0 {
                self.inspect_mapping(range, start, mapped);
            }
        }
        let ledger = self.bench.host.ledger();
        let standing = self.ranges.iter().flat_map(|(_, shadow)| shadow.0.values()).map(|mapped| mapped.chunk);
        let all: Vec<Chunk> = standing.chain(self.spares.iter().map(|spare| chunk(spare))).collect();
        let raws: BTreeSet<RawHandle> = all.iter().map(|chunk| chunk.raw).collect();
        assert_eq!(ledger.handles, raws.len() as u64);
        assert_eq!(ledger.mappings, self.ranges.iter().map(|(_, shadow)| shadow.0.len() as u64).sum::<u64>());
        assert_eq!(self.bench.origin.quarantine().count(), 0);
    }

    fn inspect_mapping(&self, range: &StitchedRange, start: u64, mapped: &Mapped) {
        let Chunk { raw, device, granules } = mapped.chunk;
        let segments = range.segments(start * GRANULE, granules * GRANULE).unwrap();
        assert_eq!(segments.len(), 1);
        assert_eq!((segments[0].handle, segments[0].device), (raw, DeviceId(device)));
        assert_eq!((segments[0].offset_bytes, segments[0].bytes), (0, granules * GRANULE));
        for granule in 0..granules {
            let read = self.bench.read(range.at() + (start + granule) * GRANULE);
            assert_eq!(read.is_some(), best(mapped) >= Rights::Read);
            if let (Some(read), Some(&word)) = (read, self.words.get(&(raw, granule))) {
                assert_eq!(read, word, "granule {granule} of {raw:?}");
            }
        }
    }

    /// Asks for every right once, then lets all go: nothing is left.
    pub fn finish(self) {
        for (range, shadow) in &self.ranges {
            for (&start, mapped) in &shadow.0 {
                for device in 0..DEVICES {
                    let expected = mapped.rights.get(&DeviceId(device)).copied().unwrap_or_default();
                    assert_eq!(self.bench.rights(device, range.at() + start * GRANULE), expected);
                }
            }
        }
        let Bench { host, .. } = self.bench;
        drop((self.ranges, self.spares));
        assert!(host.ledger().is_empty(), "{:?}", host.ledger());
    }
}

fn keep(spares: &mut Vec<Arc<PhysicalHandle>>, handles: Vec<Arc<PhysicalHandle>>) {
    spares.extend(handles);
    spares.truncate(SPARES_MAX);
}

/// A piece is cut into handles of at most `HANDLE_GRANULES`.
fn cut(device: u16, granules: u64) -> impl Iterator<Item = (u16, u64)> {
    let starts = (0..granules).step_by(HANDLE_GRANULES as usize);
    starts.map(move |start| (device, HANDLE_GRANULES.min(granules - start)))
}

fn chunk(handle: &PhysicalHandle) -> Chunk {
    Chunk { raw: handle.raw(), device: handle.device().0, granules: handle.bytes() / GRANULE }
}

fn chunks(mapped: &[Mapped]) -> Vec<Chunk> {
    mapped.iter().map(|mapped| mapped.chunk).collect()
}

fn grants_of(mapped: &Mapped) -> Vec<Grant> {
    mapped.rights.iter().map(|(&device, &rights)| Grant { device, rights }).collect()
}

/// The most that any device may do with it.
fn best(mapped: &Mapped) -> Rights {
    mapped.rights.values().copied().max().unwrap_or_default()
}

fn picture(shadow: &Shadow) -> String {
    let letter = |granule| {
        shadow.over(granule).map_or('.', |(_, mapped)| ['A', 'B', 'C', 'D'][usize::from(mapped.chunk.device)])
    };
    (0..RANGE).map(letter).collect()
}
