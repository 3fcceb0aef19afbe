//! Suspends blocks: their content is put away, their memory given back, their addresses kept. A
//! transaction: until the commit each handle waits in its slot, and a refusal maps it again.

use crate::arena::{ArenaId, Wakefulness};
use crate::backup::{Backup, Content, Deposit, Store};
use crate::chain::Slot;
use crate::courier::{Courier, Load, Milestone};
use crate::disk::DiskFile;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::{Core, Heap};
use crate::mapper::Mapper;
use crate::scope::{Ground, Scope};
use crate::tray::Tray;
use crate::unit::units_of;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use stitchpool_chunks::{capture_of, read, synchronize};
use stitchpool_driver::{Address, Capture, DeviceId, Link, RawStream};

/// What a suspend has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Suspended {
    /// Nothing was awake, and nothing was done.
    pub already: bool,
    /// Memory that was given back, in bytes: that of the blocks, and idle memory of their arenas.
    pub released_bytes: u64,
    /// Content that was put away, in bytes.
    pub backup_bytes: u64,
    /// Bytes that were given back and that the driver does not show as free yet: another process may
    /// have taken them, or the driver keeps them.
    pub not_yet_visible_bytes: u64,
}

/// A slot whose memory is to leave it, and what is in use of it.
#[derive(Clone, Debug)]
pub(crate) struct Bed {
    pub(crate) heap: u32,
    pub(crate) at: Address,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceId,
    /// The default stream of the device whose stream owns the heap: it has rights on the slot.
    pub(crate) stream: RawStream,
    /// From address to address, in order.
    pub(crate) runs: Vec<(u64, u64)>,
    /// Whether the stream's device may not read it.
    pub(crate) barred: bool,
}

/// For each bed where its content waits, and the trays among those places.
type Stowed = (Vec<Vec<Deposit>>, Vec<Arc<Tray>>);

/// Beds whose content is being copied.
struct Batch {
    beds: std::ops::Range<usize>,
    copied: Milestone,
}

/// Free bytes between blocks that are copied along rather than copied around.
const GAP_BYTES: u64 = 64 << 10;
/// So much is copied while what was copied before is unmapped.
pub(crate) const BATCH_BYTES: u64 = 256 << 20;
/// How much goes to or from a file at a time.
pub(crate) const FILE_PART_BYTES: u64 = 16 << 20;
/// How long the driver is given to show memory as free.
const VISIBLE_WITHIN: Duration = Duration::from_secs(1);

impl Engine {
    /// Suspends what is awake of a scope.
    pub(crate) fn suspend(&self, scope: Scope, backup: &Backup) -> Result<Suspended> {
        let Some(ground) = self.close(scope, Wakefulness::Awake, "suspend")? else {
            return Ok(Suspended { already: true, ..Suspended::default() });
        };
        let outcome = self.with_notice(&[&ground], || self.put_to_sleep(&ground, backup));
        self.reopen(&ground, outcome.is_ok().then_some(Wakefulness::Asleep));
        outcome
    }

    /// Takes what of a scope is in state `from` for an operation, whole arenas where it names such; nothing is
    /// allocated there meanwhile. `None`: there is nothing.
    pub(crate) fn close(&self, scope: Scope, from: Wakefulness, operation: &'static str) -> Result<Option<Ground>> {
        let mut mapper = self.mapper.lock();
        self.refuse_captures(&mapper, operation)?;
        let mut ground = self.ground(&mapper, scope)?;
        if from == Wakefulness::Awake {
            self.refuse_held(&ground)?;
        }
        let wanted = |slot: &Slot| match from {
            Wakefulness::Awake => slot.current().is_some() && !mapper.unfilled.contains_key(&slot.at().0),
            _ => matches!(slot, Slot::Asleep { .. }) || mapper.unfilled.contains_key(&slot.at().0),
        };
        let concerned: BTreeSet<u32> =
            slots_of(&mapper, &ground).filter(|(_, slot)| wanted(slot)).map(|(heap, _)| heap).collect();
        if ground.arenas.is_empty() {
            return Ok((!concerned.is_empty()).then_some(ground));
        }
        // A block of an arena may have been suspended, or resumed, by itself.
        for arena in std::mem::take(&mut ground.arenas) {
            let was = mapper.arenas.get(arena)?.wakefulness;
            if was == from || self.heaps_of(arena).any(|heap| concerned.contains(&heap.index)) {
                ground.before.push((was, self.sleeping_bytes(&mapper, arena)));
                ground.arenas.push(arena);
            }
        }
        for &arena in &ground.arenas {
            mapper.arenas.get_mut(arena)?.wakefulness = Wakefulness::Moving;
        }
        ground.heaps.retain(|&index| {
            let core = self.registry.heap(index).map(|heap| heap.core.lock());
            let Some(mut core) = core else { return false };
            let concerned = core.tenant.as_ref().is_some_and(|tenant| ground.arenas.contains(&tenant.key.arena));
            if concerned {
                core.close();
            }
            concerned
        });
        Ok((!ground.arenas.is_empty()).then_some(ground))
    }

    /// Ends what `close` began: the arenas are in state `to` from now on; `None`: in the one before, but that
    /// one in which memory fell asleep and could not be put back sleeps.
    pub(crate) fn reopen(&self, ground: &Ground, to: Option<Wakefulness>) {
        let mut mapper = self.mapper.lock();
        for (&arena, &(was, asleep_bytes)) in ground.arenas.iter().zip(&ground.before) {
            let stuck = self.sleeping_bytes(&mapper, arena) > asleep_bytes;
            let now = to.unwrap_or(if stuck { Wakefulness::Asleep } else { was });
            if now == Wakefulness::Awake {
                let of_arena = |core: &Core| core.tenant.as_ref().is_some_and(|tenant| tenant.key.arena == arena);
                let heaps = self.heaps_on(ground).filter(|heap| of_arena(&heap.core.lock()));
                heaps.for_each(|heap| heap.core.lock().reopen());
            }
            if let Ok(arena) = mapper.arenas.get_mut(arena) {
                arena.wakefulness = now;
            }
        }
        self.set_watched(&mapper);
    }

    /// How much of an arena has no memory, or has it without its content.
    fn sleeping_bytes(&self, mapper: &Mapper, arena: ArenaId) -> u64 {
        let unfilled = |index| mapper.unfilled.values().filter(|(heap, _)| *heap == index).count() as u64;
        self.heaps_of(arena).map(|heap| heap.asleep_bytes() + unfilled(heap.index)).sum()
    }

    /// Refuses to take memory from blocks that leases or views hold.
    pub(crate) fn refuse_held(&self, ground: &Ground) -> Result<()> {
        let held = |heap: &Heap| heap.core.lock().held_in(ground.span.start, ground.span.end);
        let held = self.heaps_on(ground).find_map(held);
        held.map_or(Ok(()), |(address, holders)| Err(Error::Held { address, holders }))
    }

    /// Refuses an operation while a registered stream is being captured. (Of a stream that was destroyed
    /// without a word the driver knows nothing: it captures nothing either.)
    pub(crate) fn refuse_captures(&self, mapper: &Mapper, operation: &'static str) -> Result<()> {
        mapper.captures.refuse(operation)?;
        let capturing = |raw| capture_of(&self.origin, raw).is_ok_and(|capture| capture != Capture::None);
        // A retired stream may be destroyed: nobody may be asked about it.
        match mapper.clocks.values().find(|clock| !clock.is_retired() && capturing(clock.raw())) {
            Some(clock) => Err(Error::Capturing { serial: clock.serial(), operation }),
            None => Ok(()),
        }
    }

    pub(crate) fn put_to_sleep(&self, ground: &Ground, backup: &Backup) -> Result<Suspended> {
        let users = self.users_of(&self.mapper.lock(), ground);
        self.await_all(&users)?;
        let mut mapper = self.mapper.lock();
        let users = self.users_of(&mapper, ground);
        self.quiesce(&mut mapper, &users, "suspend")?;
        // No lock was held while listeners were told and work was awaited.
        self.refuse_held(ground)?;
        refuse_pinned(&mapper, ground)?;
        self.allow_backup(&mapper, ground, backup)?;
        let free_before = self.free_bytes(&mapper, ground);
        let held_before: u64 = mapper.budgets.keys().map(|&device| mapper.held_bytes(device)).sum();
        self.release_idle(&mut mapper, ground)?;
        let beds = self.beds(&mapper, ground);
        if *backup != Backup::Discard {
            mapper.lend(&beds)?;
        }
        let stowed = self.parts(&mut mapper, &beds, backup).inspect_err(|_| mapper.take_back(&beds));
        let (parts, trays) = stowed?;
        let backup_bytes = parts.iter().flatten().map(|part| part.bytes).sum();
        let laid = self.lay_down(&mut mapper, &beds, &parts);
        if let Err(error) = laid {
            // Copies may still be reading what is mapped, and writing trays.
            let quiet = self.await_copies(&users);
            self.stand_up(&mut mapper, &beds);
            mapper.take_back(&beds);
            drop(parts);
            if quiet {
                mapper.put_trays(trays);
            } else {
                mapper.doubt.take(&users, trays);
            }
            return Err(error);
        }
        drop(trays);
        if ground.evicts && !beds.is_empty() {
            mapper.counts.evictions += 1;
            mapper.counts.evicted_bytes += beds.iter().map(|bed| bed.bytes).sum::<u64>();
        }
        commit(&mut mapper, (beds, parts), backup, ground.evicts);
        let held_after: u64 = mapper.budgets.keys().map(|&device| mapper.held_bytes(device)).sum();
        drop(mapper);
        let released_bytes = held_before.saturating_sub(held_after);
        let not_yet_visible_bytes = self.await_visible(&free_before);
        tracing::info!(ground.title, released_bytes, backup_bytes, not_yet_visible_bytes, "suspended");
        Ok(Suspended { already: false, released_bytes, backup_bytes, not_yet_visible_bytes })
    }

    /// Waits until all work of these devices is done, with no lock held: others go on meanwhile.
    pub(crate) fn await_all(&self, users: &[DeviceId]) -> Result<()> {
        users.iter().try_for_each(|&device| Ok(synchronize(&self.origin, device)?))
    }

    /// Brings all that is known up to date with what the GPU has done, which is all: no work on the devices
    /// is under way but what other arenas' users have queued since.
    pub(crate) fn quiesce(&self, mapper: &mut Mapper, users: &[DeviceId], operation: &'static str) -> Result<()> {
        self.refuse_captures(mapper, operation)?;
        self.seal_all(mapper);
        users.iter().try_for_each(|&device| synchronize(&self.origin, device))?;
        mapper.poll_clocks();
        for heap in self.registry.heaps() {
            heap.core.lock().reap();
        }
        mapper.retire_stale(usize::MAX)?;
        mapper.end_doubt()?;
        self.forget_freed(mapper);
        Ok(())
    }

    /// Refuses a backup in a place that would not do.
    fn allow_backup(&self, mapper: &Mapper, ground: &Ground, backup: &Backup) -> Result<()> {
        let Backup::Peer(peer) = *backup else { return Ok(()) };
        self.known_device(peer)?;
        for user in self.users_of(mapper, ground) {
            if self.origin.driver().link(user, peer)? == Link::None {
                return Err(Error::Unreachable { reader: user, owner: peer });
            }
        }
        let own = slots_of(mapper, ground).find(|(_, slot)| slot.current().is_some_and(|here| here.device() == peer));
        match own {
            Some((_, slot)) => Err(Error::Backup(format!(
                "memory at {} lies on {peer} itself: a backup there frees nothing; name another device or the host",
                slot.at()
            ))),
            None => Ok(()),
        }
    }

    /// Gives back handles of the ground that nothing is live in.
    pub(crate) fn release_idle(&self, mapper: &mut Mapper, ground: &Ground) -> Result<()> {
        for heap in self.heaps_on(ground) {
            let idle: Vec<(Address, u64)> = {
                let core = heap.core.lock();
                if mapper.serves_graph(&core) {
                    continue;
                }
                let slots =
                    slots_of(mapper, ground).filter(|(owner, slot)| *owner == heap.index && slot.current().is_some());
                let free =
                    |slot: &Slot| core.extents.holding(slot.at().0).is_some_and(|extent| slot.end().0 <= extent.end());
                slots.filter(|(_, slot)| free(slot)).map(|(_, slot)| (slot.at(), slot.bytes())).collect()
            };
            for (at, bytes) in idle {
                if !heap.core.lock().extents.remove_range(at.0, units_of(bytes)) {
                    continue;
                }
                match mapper.unmap(at) {
                    Ok(handle) => handle.into_iter().for_each(|handle| mapper.settle(handle, false)),
                    Err(error) => {
                        heap.core.lock().extents.insert(at.0, units_of(bytes));
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// The slots that are to fall asleep, in address order.
    pub(crate) fn beds(&self, mapper: &Mapper, ground: &Ground) -> Vec<Bed> {
        let mut used = BTreeMap::new();
        for heap in self.heaps_on(ground) {
            let core = heap.core.lock();
            let Some(tenant) = &core.tenant else { continue };
            let stream = RawStream { device: tenant.clock.raw().device, value: 0 };
            let mut runs: Vec<(u64, u64)> = core.blocks().map(|block| (block.start, block.end())).collect();
            runs.sort_unstable();
            used.insert(heap.index, (stream, tenant.grants.clone(), runs));
        }
        let filled = slots_of(mapper, ground).filter(|(_, slot)| !mapper.unfilled.contains_key(&slot.at().0));
        let current = filled.filter_map(|(heap, slot)| Some((heap, slot.current()?)));
        let beds = current.filter_map(|(heap, mapping)| {
            let (stream, grants, runs) = used.get(&heap)?;
            let (stream, at, bytes, device) = (*stream, mapping.at(), mapping.bytes(), mapping.device());
            let grants = mapper.chain_holding(at.0)?.grants_at(at, grants);
            let barred = grants.iter().all(|grant| grant.device != stream.device);
            Some(Bed { heap, at, bytes, device, stream, runs: cut(runs, at.0, mapping.end().0), barred })
        });
        beds.collect()
    }

    /// Where the content of each bed will wait: nothing is copied yet but what goes to a file.
    fn parts(&self, mapper: &mut Mapper, beds: &[Bed], backup: &Backup) -> Result<Stowed> {
        let place = match backup {
            Backup::Discard => return Ok((beds.iter().map(|_| Vec::new()).collect(), Vec::new())),
            Backup::Disk(directory) => {
                let (file, mut open) = DiskFile::create(directory)?;
                let file = Arc::new(file);
                let mut offset = 0;
                let parts = beds.iter().map(|bed| self.to_file(bed, (&file, &mut open), &mut offset));
                let parts = parts.collect::<Result<Vec<_>>>()?;
                open.sync_data().map_err(|error| Error::Backup(format!("the backup file was not kept: {error}")))?;
                return Ok((parts, Vec::new()));
            }
            Backup::Host => DeviceId::HOST,
            Backup::Peer(device) => *device,
        };
        let mut users: Vec<DeviceId> = beds.iter().map(|bed| bed.stream.device).collect();
        users.sort_unstable();
        users.dedup();
        let mut rack = Rack { place, users, trays: Vec::new(), used_bytes: 0, ahead_bytes: 0 };
        rack.ahead_bytes = beds.iter().flat_map(|bed| &bed.runs).map(|(start, end)| end - start).sum();
        let parts = beds.iter().map(|bed| rack.stow(mapper, bed)).collect::<Result<Vec<_>>>();
        match parts {
            Ok(parts) => Ok((parts, rack.trays)),
            Err(error) => {
                mapper.put_trays(rack.trays);
                Err(error)
            }
        }
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

    /// Copies the beds' content away and unmaps them, the one while the other.
    fn lay_down(&self, mapper: &mut Mapper, beds: &[Bed], parts: &[Vec<Deposit>]) -> Result<()> {
        let origin = self.origin.clone();
        let mut courier = Courier::new(&origin);
        let mut under_way: VecDeque<Batch> = VecDeque::new();
        let mut first = 0;
        while first < beds.len() {
            let (mut last, mut bytes) = (first, 0);
            while last < beds.len() && bytes < BATCH_BYTES {
                for part in &parts[last] {
                    if let Store::Tray(tray, offset) = &part.store {
                        let (bed, to) = (&beds[last], tray.at() + *offset);
                        let devices = (bed.device, tray.device());
                        courier.take(Load {
                            stream: bed.stream,
                            devices,
                            from: Address(part.at),
                            to,
                            bytes: part.bytes,
                        })?;
                    }
                }
                bytes += beds[last].bytes;
                last += 1;
            }
            under_way.push_back(Batch { beds: first..last, copied: courier.mark(bytes)? });
            first = last;
            if under_way.len() > 1 {
                self.unmap_next(mapper, beds, &mut under_way)?;
            }
        }
        while !under_way.is_empty() {
            self.unmap_next(mapper, beds, &mut under_way)?;
        }
        Ok(())
    }

    fn unmap_next(&self, mapper: &mut Mapper, beds: &[Bed], under_way: &mut VecDeque<Batch>) -> Result<()> {
        let Some(batch) = under_way.pop_front() else { return Ok(()) };
        batch.copied.reach(self.settings.wait_max)?;
        for bed in &beds[batch.beds] {
            self.unmap_bed(mapper, bed.heap, bed.at, bed.bytes)?;
        }
        Ok(())
    }

    /// Unmaps one slot; its handle waits in it.
    pub(crate) fn unmap_bed(&self, mapper: &mut Mapper, heap: u32, at: Address, bytes: u64) -> Result<()> {
        mapper.end_doubt()?;
        let Some(chain) = mapper.chain_holding_mut(at.0) else { return Ok(()) };
        chain.lay_down(at)?;
        mapper.counts.unmapped += 1;
        if let Some(heap) = self.registry.heap(heap) {
            heap.note_asleep(bytes, 0);
        }
        Ok(())
    }

    /// Waits until copies of an operation that has failed are done. False: nobody knows whether they are.
    pub(crate) fn await_copies(&self, devices: &[DeviceId]) -> bool {
        let waited = devices.iter().try_for_each(|&device| synchronize(&self.origin, device));
        if let Err(error) = &waited {
            tracing::warn!(%error, "a device could not be waited for");
        }
        waited.is_ok()
    }

    /// Undoes `lay_down`: each handle goes back where it was. What the driver would not map again goes on
    /// sleeping with its memory: nothing is lost, and a resume tries again.
    fn stand_up(&self, mapper: &mut Mapper, beds: &[Bed]) {
        for bed in beds {
            let Some(heap) = self.registry.heap(bed.heap) else { continue };
            let grants = heap.core.lock().tenant.as_ref().map(|tenant| tenant.grants.clone());
            let Some(chain) = mapper.chain_holding_mut(bed.at.0) else { continue };
            let handle = match chain.slot_holding(bed.at) {
                Some(Slot::Asleep { content: Content::Handle(handle), .. }) => handle.clone(),
                _ => continue,
            };
            let grants = chain.grants_at(bed.at, &grants.unwrap_or_default());
            match chain.raise(bed.at, vec![handle], &grants) {
                Ok(_) => heap.note_asleep(0, bed.bytes),
                Err((error, stuck)) => {
                    tracing::warn!(%error, at = %bed.at, "memory stays without rights: resume it");
                    mapper.note_unfilled(heap, stuck);
                }
            }
        }
    }

    /// What the driver shows as free on the devices of a ground, those where asking makes no context.
    fn free_bytes(&self, mapper: &Mapper, ground: &Ground) -> BTreeMap<DeviceId, (u64, u64)> {
        let mut devices: Vec<DeviceId> =
            slots_of(mapper, ground).filter_map(|(_, slot)| Some(slot.current()?.device())).collect();
        devices.sort_unstable();
        devices.dedup();
        let free = |device| Some((device, (mapper.device_free_bytes(device)?, mapper.held_bytes(device))));
        devices.into_iter().filter(|device| !device.is_host()).filter_map(free).collect()
    }

    /// Waits, for a second at most, until the driver shows what was given back as free; gives what it does
    /// not show.
    fn await_visible(&self, before: &BTreeMap<DeviceId, (u64, u64)>) -> u64 {
        let deadline = Instant::now() + VISIBLE_WITHIN;
        loop {
            let mut hidden_bytes = 0;
            for (&device, &(free_bytes, held_bytes)) in before {
                let released_bytes = held_bytes.saturating_sub(self.mapper.lock().held_bytes(device));
                let shown = self.origin.driver().memory(device).map_or(u64::MAX, |memory| memory.free_bytes);
                hidden_bytes += (free_bytes + released_bytes).saturating_sub(shown);
            }
            if hidden_bytes == 0 || Instant::now() >= deadline {
                return hidden_bytes;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets go of sleeping slots all of whose blocks were freed meanwhile: their addresses and backups.
    pub(crate) fn forget_freed(&self, mapper: &mut Mapper) {
        for heap in self.registry.heaps().filter(|heap| heap.asleep_bytes() > 0) {
            let freed: Vec<(Address, u64)> = {
                let mut core = heap.core.lock();
                core.reap();
                if mapper.serves_graph(&core) {
                    continue;
                }
                let chains = mapper.chains.values().filter(|chain| chain.heap() == heap.index);
                let asleep = chains.flat_map(|chain| chain.slots()).filter(|slot| matches!(slot, Slot::Asleep { .. }));
                let places: Vec<(Address, u64)> = asleep.map(|slot| (slot.at(), slot.bytes())).collect();
                places.into_iter().filter(|&(at, bytes)| core.extents.remove_range(at.0, units_of(bytes))).collect()
            };
            for (at, bytes) in freed {
                self.forget_bed(mapper, heap, at, bytes);
            }
        }
    }

    fn forget_bed(&self, mapper: &mut Mapper, heap: &Heap, at: Address, bytes: u64) {
        heap.note_asleep(0, bytes);
        match mapper.forget(at) {
            Some(Content::Handle(handle)) => mapper.settle(handle, false),
            Some(content) => mapper.put_trays(content.into_trays()),
            None => {}
        }
    }
}

/// Trays being filled.
struct Rack {
    place: DeviceId,
    users: Vec<DeviceId>,
    trays: Vec<Arc<Tray>>,
    /// Of the last tray.
    used_bytes: u64,
    /// What is still to be stowed.
    ahead_bytes: u64,
}

impl Rack {
    /// Gives a bed's content places in trays.
    fn stow(&mut self, mapper: &mut Mapper, bed: &Bed) -> Result<Vec<Deposit>> {
        let mut parts = Vec::new();
        for &(start, end) in &bed.runs {
            let mut at = start;
            while at < end {
                let room_bytes = self.trays.last().map_or(0, |tray| tray.bytes() - self.used_bytes);
                if room_bytes == 0 {
                    self.trays.push(Arc::new(mapper.take_tray(self.place, self.ahead_bytes, &self.users)?));
                    self.used_bytes = 0;
                    continue;
                }
                let Some(tray) = self.trays.last() else { continue };
                let bytes = room_bytes.min(end - at);
                parts.push(Deposit { at, bytes, store: Store::Tray(tray.clone(), self.used_bytes) });
                self.used_bytes += bytes;
                self.ahead_bytes -= bytes;
                at += bytes;
            }
        }
        Ok(parts)
    }
}

/// Everything is copied and unmapped: the handles go, and the slots hold their backup.
fn commit(mapper: &mut Mapper, beds: (Vec<Bed>, Vec<Vec<Deposit>>), backup: &Backup, evicted: bool) {
    for (bed, parts) in beds.0.into_iter().zip(beds.1) {
        let content = if *backup == Backup::Discard { Content::Discarded } else { Content::Parts(parts) };
        let held = mapper.chain_holding_mut(bed.at.0).and_then(|chain| {
            chain.evicted = evicted;
            chain.set_content(bed.at, content)
        });
        if let Some(Content::Handle(handle)) = held {
            mapper.settle(handle, false);
        }
    }
}

/// Refuses to move memory whose handles somebody outside the pool uses.
pub(crate) fn refuse_pinned(mapper: &Mapper, ground: &Ground) -> Result<()> {
    match slots_of(mapper, ground).find(|(_, slot)| mapper.pins.touch(slot.at().0, slot.end().0)) {
        Some((_, slot)) => {
            let why = format!("the handle at {} is pinned: drop the pin first, or when a listener is told", slot.at());
            Err(Error::InUse { what: ground.title.clone(), why })
        }
        None => Ok(()),
    }
}

/// The slots of a ground, each with its heap, in address order.
pub(crate) fn slots_of<'a>(mapper: &'a Mapper, ground: &'a Ground) -> impl Iterator<Item = (u32, &'a Slot)> {
    let chains = mapper.chains.values().filter(|chain| ground.heaps.contains(&chain.heap()));
    let slots = chains.flat_map(|chain| chain.slots().iter().map(move |slot| (chain.heap(), slot)));
    slots.filter(|(_, slot)| ground.span.start <= slot.at().0 && slot.end().0 <= ground.span.end)
}

/// What of the sorted runs lies from `start` to `end`, with small gaps closed.
fn cut(runs: &[(u64, u64)], start: u64, end: u64) -> Vec<(u64, u64)> {
    let first = runs.partition_point(|run| run.1 <= start);
    let inside = runs[first..].iter().take_while(|run| run.0 < end);
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (low, high) in inside.map(|run| (run.0.max(start), run.1.min(end))) {
        match joined.last_mut() {
            Some(last) if low - last.1 <= GAP_BYTES => last.1 = high,
            _ => joined.push((low, high)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_to_the_slot_and_small_gaps_closed() {
        let far = 3 * GAP_BYTES;
        let runs = [(0, 100), (200, 300), (far, far + 50), (far + 60, far + 500)];
        assert_eq!(cut(&runs, 50, far + 100), [(50, 300), (far, far + 100)]);
        assert_eq!(cut(&runs, 300, far), []);
    }
}
