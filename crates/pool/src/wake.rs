//! Resumes blocks: memory is found for all of them first, then mapped at their addresses and filled again.
//! A transaction: until the commit the backups stay, and a refusal lets all of it sleep on.

use crate::arena::Wakefulness;
use crate::backup::{Content, Store};
use crate::bed::slots_of;
use crate::chain::Slot;
use crate::courier::{Courier, Load};
use crate::devices::distinct;
use crate::engine::Engine;
use crate::error::{Error, Result, Shortage};
use crate::heap::Heap;
use crate::mapper::Mapper;
use crate::overrides::over;
use crate::scope::{Ground, Scope};
use crate::sleep::BATCH_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;
use stitchpool_chunks::{PhysicalHandle, memset, open, write};
use stitchpool_driver::{Address, DeviceId, Grant, HandleSpec, RawStream, Rights};

/// What a resume has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resumed {
    /// Nothing was asleep, and nothing was done.
    pub already: bool,
    /// Memory that was taken, in bytes.
    pub taken_bytes: u64,
    /// Content that was brought back, in bytes.
    pub restored_bytes: u64,
}

/// A sleeping slot that shall wake.
#[derive(Clone, Debug)]
struct Sleeper {
    heap: u32,
    at: Address,
    bytes: u64,
    device: DeviceId,
    stream: RawStream,
    grants: Arc<[Grant]>,
}

impl Sleeper {
    /// Who gets rights while it is filled: whoever fills it may write, whatever it may do later.
    fn filling_grants(&self) -> Vec<Grant> {
        over(&self.grants, &[Grant { device: self.stream.device, rights: Rights::ReadWrite }])
    }

    /// It is filled: whoever has filled it may do there from now on what was asked for.
    fn settle_rights(&self, mapper: &Mapper) -> std::result::Result<(), stitchpool_driver::Error> {
        let device = self.stream.device;
        let asked = self.grants.iter().find(|grant| grant.device == device);
        let rights = asked.map_or(Rights::None, |grant| grant.rights);
        if rights == Rights::ReadWrite {
            return Ok(());
        }
        open(mapper.slot_holding(self.at.0).and_then(Slot::current), &[Grant { device, rights }])
    }
}

/// A handle for a bed, and where it comes from.
struct Incoming {
    handle: Arc<PhysicalHandle>,
    source: Source,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// It waited in the slot.
    Slot,
    Stock,
    Created,
}

/// A bed that is mapped again, with what it held before.
struct Risen {
    bed: Sleeper,
    source: Source,
    content: Content,
}

/// What blocks come back filled with whose content was discarded, where the settings want that.
const POISON: u8 = 0xA5;

impl Engine {
    /// Resumes what is asleep of a scope.
    pub(crate) fn resume(&self, scope: Scope) -> Result<Resumed> {
        let Some(ground) = self.close(scope, Wakefulness::Asleep, "resume")? else {
            return Ok(Resumed { already: true, ..Resumed::default() });
        };
        let outcome = self.wake(&ground);
        self.reopen(&ground, outcome.is_ok().then_some(Wakefulness::Awake));
        if outcome.is_ok() {
            self.after_return(&self.segments_on(&[&ground]));
        }
        outcome
    }

    fn wake(&self, ground: &Ground) -> Result<Resumed> {
        let mut mapper = self.mapper.lock();
        self.refuse_captures(&mapper, "resume")?;
        // What was freed asleep needs no memory: it shall be known as free.
        self.seal_all(&mapper);
        mapper.poll_clocks();
        self.forget_freed(&mut mapper);
        let beds = self.sleeping(&mapper, ground);
        let handles = self.provide(&mut mapper, &beds)?;
        let mut risen = Vec::with_capacity(beds.len());
        let filled = self.raise_and_fill(&mut mapper, beds, handles, &mut risen);
        match filled.and_then(|restored| Ok(restored + self.fill_left_over(&mut mapper, ground)?)) {
            Ok(restored_bytes) => {
                let taken_bytes = commit(&mut mapper, risen);
                tracing::info!(ground.title, taken_bytes, restored_bytes, "resumed");
                Ok(Resumed { already: false, taken_bytes, restored_bytes })
            }
            Err(error) => {
                self.lay_back(&mut mapper, risen);
                Err(error)
            }
        }
    }

    /// The slots that shall wake, in address order: those asleep, and those that an earlier resume could
    /// neither fill nor lay back. An arena that wakes leaves alone what was put out of it while memory was short.
    fn sleeping(&self, mapper: &Mapper, ground: &Ground) -> Vec<Sleeper> {
        let mut owners: BTreeMap<u32, (RawStream, Arc<[Grant]>)> = BTreeMap::new();
        for heap in self.heaps_on(ground) {
            if let Some(tenant) = &heap.core.lock().tenant {
                let stream = tenant.clock.default_stream();
                owners.insert(heap.index, (stream, tenant.grants.clone()));
            }
        }
        let beds = slots_of(mapper, ground).filter_map(|(heap, slot)| {
            let Slot::Asleep { device, .. } = slot else { return None };
            let (stream, grants) = owners.get(&heap)?;
            let stream = *stream;
            let chain = mapper.chain_holding(slot.at().0)?;
            if chain.evicted && !ground.arenas.is_empty() {
                return None;
            }
            let grants = chain.grants_at(slot.at(), grants);
            Some(Sleeper { heap, at: slot.at(), bytes: slot.bytes(), device: *device, stream, grants })
        });
        beds.collect()
    }

    /// A handle for each bed, or none at all.
    fn provide(&self, mapper: &mut Mapper, beds: &[Sleeper]) -> Result<Vec<Incoming>> {
        let mut provided = Vec::with_capacity(beds.len());
        let mut created_bytes: BTreeMap<DeviceId, u64> = BTreeMap::new();
        for bed in beds {
            let ahead_bytes = created_bytes.entry(bed.device).or_default();
            match self.provide_one(mapper, bed, *ahead_bytes) {
                Ok(incoming) => {
                    if incoming.source == Source::Created {
                        *ahead_bytes += bed.bytes;
                    }
                    provided.push(incoming);
                }
                Err(error) => {
                    give_back(mapper, provided);
                    return Err(self.resume_shortage(mapper, beds, created_bytes.values().sum(), error));
                }
            }
        }
        Ok(provided)
    }

    /// A handle for one bed, of whose device `ahead_bytes` were created for others already.
    fn provide_one(&self, mapper: &mut Mapper, bed: &Sleeper, ahead_bytes: u64) -> Result<Incoming> {
        let waiting = match mapper.slot_holding(bed.at.0) {
            Some(Slot::Asleep { content: Content::Handle(handle), .. }) => Some(handle.clone()),
            _ => None,
        };
        if let Some(handle) = waiting {
            return Ok(Incoming { handle, source: Source::Slot });
        }
        let kind = mapper.settings.kind;
        if let Some(handle) = mapper.stock.take(bed.device, kind, bed.bytes) {
            return Ok(Incoming { handle, source: Source::Stock });
        }
        let handle = self.trim_for(mapper, bed.device, |mapper| {
            mapper.refuse_beyond_limit(bed.device, ahead_bytes + bed.bytes)?;
            let spec = HandleSpec { device: bed.device, bytes: bed.bytes, kind };
            Ok(PhysicalHandle::create(&mapper.origin, spec)?)
        })?;
        Ok(Incoming { handle, source: Source::Created })
    }

    /// Out of memory is told as for any request.
    fn resume_shortage(&self, mapper: &Mapper, beds: &[Sleeper], found_bytes: u64, error: Error) -> Error {
        let refusal = match error {
            error if !error.is_short() => return error,
            Error::Driver(refusal) => Some(refusal),
            _ => None,
        };
        let asked_bytes: u64 = beds.iter().map(|bed| bed.bytes).sum();
        let devices = distinct(beds.iter().map(|bed| bed.device));
        let heaps: Vec<&Heap> = self.registry.heaps().collect();
        Error::OutOfMemory(Box::new(Shortage {
            asked_bytes,
            missing_bytes: asked_bytes.saturating_sub(found_bytes),
            devices: devices.into_iter().filter_map(|device| mapper.holdings(device, &heaps)).collect(),
            refusal,
            eviction: None,
            waits: Vec::new(),
            capturing: false,
        }))
    }

    /// Opens and fills the slots that an earlier failure left mapped.
    fn fill_left_over(&self, mapper: &mut Mapper, ground: &Ground) -> Result<u64> {
        let left =
            mapper.unfilled.iter().filter(|(at, (heap, _))| ground.span.contains(at) && ground.heaps.contains(heap));
        let places: Vec<u64> = left.map(|(&at, _)| at).collect();
        let mut restored_bytes = 0;
        for at in places {
            let Some((index, content)) = mapper.unfilled.remove(&at) else { continue };
            let filled = self.fill_mapped(mapper, index, Address(at), &content);
            match filled {
                Ok(bytes) => {
                    restored_bytes += bytes;
                    mapper.put_trays(content.into_trays());
                }
                Err(error) => {
                    mapper.unfilled.insert(at, (index, content));
                    return Err(error);
                }
            }
        }
        Ok(restored_bytes)
    }

    fn fill_mapped(&self, mapper: &Mapper, heap: u32, at: Address, content: &Content) -> Result<u64> {
        let tenant = self.registry.heap(heap).and_then(|heap| heap.core.lock().tenant.clone());
        let (Some(tenant), Some(mapping)) = (tenant, mapper.slot_holding(at.0).and_then(Slot::current)) else {
            return Ok(0);
        };
        let stream = tenant.clock.default_stream();
        let (bytes, device) = (mapping.bytes(), mapping.device());
        let grants = mapper.chain_holding(at.0).map_or_else(Arc::default, |chain| chain.grants_at(at, &tenant.grants));
        let bed = Sleeper { heap, at, bytes, device, stream, grants };
        open([mapping], &bed.filling_grants())?;
        let mut courier = Courier::new(&self.origin);
        let restored_bytes = self.fill(&mut courier, &bed, content)?;
        courier.mark(bytes)?.reach(self.settings.wait_max)?;
        bed.settle_rights(mapper)?;
        Ok(restored_bytes)
    }

    /// Maps the beds, run after run, and queues what fills them; then waits for all of it.
    fn raise_and_fill(
        &self,
        mapper: &mut Mapper,
        beds: Vec<Sleeper>,
        handles: Vec<Incoming>,
        risen: &mut Vec<Risen>,
    ) -> Result<u64> {
        let origin = self.origin.clone();
        let mut courier = Courier::new(&origin);
        let (mut restored_bytes, mut all_bytes) = (0, 0);
        let mut rest = beds.into_iter().zip(handles).peekable();
        while let Some(first) = rest.next() {
            let mut run = vec![first];
            let mut bytes = run[0].0.bytes;
            while let Some(next) =
                rest.next_if(|(bed, _)| bytes < BATCH_BYTES && run.last().is_some_and(|last| follows(&last.0, bed)))
            {
                bytes += next.0.bytes;
                run.push(next);
            }
            let from = risen.len();
            if let Err(error) = self.raise(mapper, run, risen) {
                give_back(mapper, rest.map(|(_, incoming)| incoming).collect());
                return Err(error);
            }
            all_bytes += bytes;
            let filled = risen[from..]
                .iter()
                .try_fold(0, |sum, risen| Ok(sum + self.fill(&mut courier, &risen.bed, &risen.content)?));
            match filled {
                Ok(bytes) => restored_bytes += bytes,
                Err(error) => {
                    give_back(mapper, rest.map(|(_, incoming)| incoming).collect());
                    return Err(error);
                }
            }
        }
        courier.mark(all_bytes)?.reach(self.settings.wait_max)?;
        for risen in &*risen {
            risen.bed.settle_rights(mapper)?;
        }
        Ok(restored_bytes)
    }

    /// Maps one run of neighbours.
    fn raise(&self, mapper: &mut Mapper, run: Vec<(Sleeper, Incoming)>, risen: &mut Vec<Risen>) -> Result<()> {
        let (at, grants) = (run[0].0.at, run[0].0.filling_grants());
        let handles = run.iter().map(|(_, incoming)| incoming.handle.clone()).collect();
        let raised = match mapper.chain_holding_mut(at.0) {
            Some(chain) => chain.raise(at, handles, &grants),
            None => return Err(self.unknown(at)),
        };
        let contents = match raised {
            Ok(contents) => contents,
            Err((error, stuck)) => {
                let heap = self.registry.heap(run[0].0.heap);
                for (bed, incoming) in run {
                    match stuck.iter().any(|(at, _)| *at == bed.at) {
                        true => book(mapper, incoming.source, bed.device, bed.bytes),
                        false => give_back(mapper, vec![incoming]),
                    }
                }
                if let Some(heap) = heap {
                    mapper.note_unfilled(heap, stuck);
                }
                return Err(error.into());
            }
        };
        for ((bed, incoming), (_, content)) in run.into_iter().zip(contents) {
            if let Some(heap) = self.registry.heap(bed.heap) {
                heap.note_asleep(0, bed.bytes);
            }
            risen.push(Risen { bed, source: incoming.source, content });
        }
        Ok(())
    }

    /// Queues what brings a bed's content back, or does it at once where it lies in a file.
    fn fill(&self, courier: &mut Courier<'_>, bed: &Sleeper, content: &Content) -> Result<u64> {
        let parts = match content {
            Content::Handle(_) => return Ok(0),
            Content::Discarded => {
                if self.settings.poison {
                    memset(&self.origin, bed.stream, bed.at, bed.bytes, POISON)?;
                    courier.note(bed.stream);
                }
                return Ok(0);
            }
            Content::Parts(parts) => parts,
        };
        for part in parts {
            match &part.store {
                Store::Tray(tray, offset) => {
                    let (from, to) = (tray.at() + *offset, Address(part.at));
                    let devices = (tray.device(), bed.device);
                    courier.take(Load { stream: bed.stream, devices, from, to, bytes: part.bytes })?;
                }
                Store::File(file, offset, checksum) => {
                    let mut buffer = vec![0; usize::try_from(part.bytes).unwrap_or(usize::MAX)];
                    file.read(*offset, &mut buffer, *checksum)?;
                    write(&self.origin, bed.stream.device, Address(part.at), &buffer)?;
                }
            }
        }
        Ok(parts.iter().map(|part| part.bytes).sum())
    }

    /// Undoes a resume: every bed sleeps again with what it held. One that the driver would not unmap keeps
    /// its memory; what it held is kept for the next resume.
    fn lay_back(&self, mapper: &mut Mapper, risen: Vec<Risen>) {
        let users = distinct(risen.iter().map(|risen| risen.bed.stream.device));
        let quiet = self.await_copies(&users);
        if !quiet {
            mapper.doubt.take(&users, Vec::new());
        }
        for Risen { bed, source, content } in risen {
            // Nothing is unmapped under a copy that may be under way.
            let lay = |mapper: &mut Mapper| quiet && self.unmap_bed(mapper, bed.heap, bed.at, bed.bytes).is_ok();
            if !lay(mapper) && !lay(mapper) {
                tracing::warn!(at = %bed.at, "memory stays mapped without its content: resume again");
                mapper.unfilled.insert(bed.at.0, (bed.heap, content));
                book(mapper, source, bed.device, bed.bytes);
                continue;
            }
            let laid = mapper.chain_holding_mut(bed.at.0).and_then(|chain| chain.set_content(bed.at, content));
            if let Some(Content::Handle(handle)) = laid {
                give_back(mapper, vec![Incoming { handle, source }]);
            }
        }
    }
}

/// Whether `next` continues `last` in the same chain with the same rights.
fn follows(last: &Sleeper, next: &Sleeper) -> bool {
    last.heap == next.heap && last.at + last.bytes == next.at && last.grants == next.grants
}

/// All beds are filled: their backups go.
fn commit(mapper: &mut Mapper, risen: Vec<Risen>) -> u64 {
    let mut trays = Vec::new();
    let mut taken_bytes = 0;
    let mut returned = Vec::new();
    for Risen { bed, source, content } in risen {
        taken_bytes += bed.bytes;
        book(mapper, source, bed.device, bed.bytes);
        if let Some(chain) = mapper.chain_holding_mut(bed.at.0).filter(|chain| chain.evicted) {
            // All of an evicted block comes back at once, or a part that was named: the rest is as any that sleeps.
            returned.push(chain.at().0);
            mapper.counts.returned_bytes += bed.bytes;
        }
        trays.extend(content.into_trays());
    }
    for chain in returned {
        if let Some(chain) = mapper.chains.get_mut(&chain) {
            chain.evicted = false;
        }
    }
    mapper.put_trays(trays);
    taken_bytes
}

/// Counts a handle that was created for a bed.
fn book(mapper: &mut Mapper, source: Source, device: DeviceId, bytes: u64) {
    if source == Source::Created {
        mapper.count_in(device, bytes);
    }
}

/// Handles that are not needed after all. Those created are released by their drop.
fn give_back(mapper: &mut Mapper, unused: Vec<Incoming>) {
    for incoming in unused {
        if incoming.source == Source::Stock {
            mapper.stock.park(incoming.handle);
        }
    }
}
