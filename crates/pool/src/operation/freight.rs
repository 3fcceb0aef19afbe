//! The content of beds on its way out: where each part will wait, and which copies are under way. It unmaps
//! nothing.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::mapper::Mapper;
use crate::mapper::backup::{Backup, Content, Deposit, Store};
use crate::mapper::disk::DiskFile;
use crate::mapper::tray::Tray;
use crate::operation::batch::Measure;
use crate::operation::bed::Bed;
use crate::operation::courier::{Courier, Load, Milestone};
use crate::operation::rack::Rack;
use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use stitchpool_chunks::read;
use stitchpool_driver::{Address, DeviceId};

/// What is taken from beds.
#[derive(Debug, Default)]
pub(crate) struct Freight {
    pub(crate) beds: Vec<Bed>,
    /// So many of them, the first, may be read by whoever copies.
    pub(crate) lent: usize,
    /// What they will hold, from the first on whose handle has not gone yet.
    pub(crate) contents: VecDeque<Content>,
    /// In the order of the beds, those that were queued and not unmapped yet.
    pub(crate) batches: VecDeque<Batch>,
    /// What is still to be queued, if any of it goes to trays.
    waybill: Option<Waybill>,
    pub(crate) bytes: u64,
}

/// How the rest of a freight goes into trays.
#[derive(Debug)]
struct Waybill {
    rack: Rack,
    /// Places of what comes next, where they were found already.
    stowed: VecDeque<Vec<Deposit>>,
    /// The first bed that was not queued.
    next: usize,
    /// Iff not a batch is queued before the one ahead of it was unmapped: over a link between devices an unmapping
    /// waits for every copy that is queued, and all that follow it with it.
    in_turn: bool,
}

/// Beds whose content is being copied.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) beds: Range<usize>,
    pub(crate) copied: Milestone,
}

/// How much goes to or from a file at a time.
const FILE_PART_BYTES: u64 = 16 << 20;

impl Freight {
    pub(crate) fn of(beds: Vec<Bed>) -> Self {
        Self { beds, ..Self::default() }
    }

    /// Whether all of it was queued.
    fn is_queued(&self) -> bool {
        self.waybill.as_ref().is_none_or(|waybill| waybill.next == self.beds.len())
    }

    /// The trays that it lies in, or shall.
    pub(crate) fn into_trays(self) -> Vec<Arc<Tray>> {
        self.waybill.map_or_else(Vec::new, |waybill| waybill.rack.into_trays())
    }
}

impl Engine {
    /// Finds places for the beds' content and queues copies: the first runs while places for the next are made.
    /// What goes to a file is there at the end. [`Engine::load_more`] queues what is not queued then.
    pub(crate) fn load(&self, mapper: &mut Mapper, freight: &mut Freight, backup: &Backup) -> Result<()> {
        let place = match backup {
            Backup::Discard => {
                freight.contents.extend(freight.beds.iter().map(|_| Content::Discarded));
                freight.batches.push_back(Batch { beds: 0..freight.beds.len(), copied: Milestone::default() });
                return Ok(());
            }
            Backup::Disk(directory) => return self.load_file(mapper, freight, directory),
            Backup::Host => DeviceId::HOST,
            Backup::Peer(device) => *device,
        };
        let rack = Rack::new(place, &freight.beds);
        let in_turn = place != DeviceId::HOST;
        let is_short = rack.looks_short(mapper);
        let waybill = freight.waybill.insert(Waybill { rack, stowed: VecDeque::new(), next: 0, in_turn });
        if is_short || in_turn {
            // Whether there is room is known before anything is copied, or unmapped.
            for bed in &freight.beds {
                waybill.stowed.push_back(waybill.rack.stow(self, mapper, bed)?);
            }
        }
        self.load_more(mapper, freight)
    }

    /// Queues the next batch, or all that are left where they need not take turns.
    pub(crate) fn load_more(&self, mapper: &mut Mapper, freight: &mut Freight) -> Result<()> {
        while !freight.is_queued() {
            self.load_batch(mapper, freight)?;
            if freight.waybill.as_ref().is_some_and(|waybill| waybill.in_turn) {
                break;
            }
        }
        Ok(())
    }

    fn load_batch(&self, mapper: &mut Mapper, freight: &mut Freight) -> Result<()> {
        let Freight { beds, lent, contents, batches, bytes: all_bytes, waybill } = freight;
        let Some(Waybill { rack, stowed, next, in_turn }) = waybill else { return Ok(()) };
        let measure = if *in_turn { Measure::LARGE } else { Measure::SMALL };
        let (first, last) = (*next, *next + measure.next_batch(beds[*next..].iter().map(|bed| bed.bytes)));
        mapper.lend(&beds[first..last])?;
        *lent = last;
        let mut courier = Courier::new(&self.origin);
        for bed in &beds[first..last] {
            let parts = stowed.pop_front().map_or_else(|| rack.stow(self, mapper, bed), Ok)?;
            for part in &parts {
                let Store::Tray(tray, offset) = &part.store else { continue };
                let (from, to) = (Address(part.at), tray.at() + *offset);
                let devices = (bed.device, tray.device());
                courier.take(Load { stream: bed.stream, devices, from, to, bytes: part.bytes })?;
                *all_bytes += part.bytes;
            }
            contents.push_back(Content::Parts(parts));
        }
        let copied = courier.mark(beds[first..last].iter().map(|bed| bed.bytes).sum())?;
        batches.push_back(Batch { beds: first..last, copied });
        *next = last;
        Ok(())
    }

    fn load_file(&self, mapper: &mut Mapper, freight: &mut Freight, directory: &Path) -> Result<()> {
        mapper.lend(&freight.beds)?;
        freight.lent = freight.beds.len();
        let (file, mut open) = DiskFile::create(directory)?;
        let file = Arc::new(file);
        for bed in &freight.beds {
            let parts = self.to_file(bed, (&file, &mut open), &mut freight.bytes)?;
            freight.contents.push_back(Content::Parts(parts));
        }
        open.sync_data().map_err(|error| Error::Backup(format!("the backup file was not kept: {error}")))?;
        freight.batches.push_back(Batch { beds: 0..freight.beds.len(), copied: Milestone::default() });
        Ok(())
    }

    fn to_file(&self, bed: &Bed, to: (&Arc<DiskFile>, &mut File), offset: &mut u64) -> Result<Vec<Deposit>> {
        let mut parts = Vec::new();
        for &(start, end) in &bed.runs {
            let mut at = start;
            while at < end {
                let bytes = FILE_PART_BYTES.min(end - at);
                let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
                read(&self.origin, bed.stream.device, Address(at), &mut buffer)?;
                let checksum = to.0.append(to.1, &buffer)?;
                parts.push(Deposit { at, bytes, store: Store::File(to.0.clone(), *offset, checksum) });
                *offset += bytes;
                at += bytes;
            }
        }
        Ok(parts)
    }
}
