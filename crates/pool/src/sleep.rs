//! Suspends blocks: their content is put away, their memory given back, their addresses kept. A
//! transaction: until the commit each handle waits in its slot, and a refusal maps it again.

use crate::arena::Wakefulness;
use crate::backup::{Backup, Content, Deposit, Store};
use crate::bed::{Bed, slots_of};
use crate::chain::Slot;
use crate::courier::{Courier, Load, Milestone};
use crate::devices::distinct;
use crate::disk::DiskFile;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::mapper::Mapper;
use crate::scope::{Ground, Scope};
use crate::tray::Tray;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use stitchpool_chunks::read;
use stitchpool_driver::{Address, DeviceId, Link};

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

/// For each bed where its content waits, and the trays among those places.
type Stowed = (Vec<Vec<Deposit>>, Vec<Arc<Tray>>);

/// Beds whose content is being copied.
struct Batch {
    beds: std::ops::Range<usize>,
    copied: Milestone,
}

/// So much is copied while what was copied before is unmapped.
pub(crate) const BATCH_BYTES: u64 = 256 << 20;
/// How much goes to or from a file at a time.
const FILE_PART_BYTES: u64 = 16 << 20;
/// How long the driver is given to show memory as free.
const VISIBLE_WITHIN: Duration = Duration::from_secs(1);

impl Engine {
    /// Suspends what is awake of a scope.
    pub(crate) fn suspend(&self, scope: Scope, backup: &Backup) -> Result<Suspended> {
        let Some(ground) = self.close(scope, Wakefulness::Awake, "suspend")? else {
            return Ok(Suspended { already: true, ..Suspended::default() });
        };
        self.with_notice(&[&ground], Some(Wakefulness::Asleep), || self.put_to_sleep(&ground, backup))
    }

    pub(crate) fn put_to_sleep(&self, ground: &Ground, backup: &Backup) -> Result<Suspended> {
        let (mut mapper, users) = self.clear(ground, "suspend")?;
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
        let users = distinct(beds.iter().map(|bed| bed.stream.device));
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

    /// Undoes `lay_down`: each handle goes back where it was. What the driver would not map again goes on
    /// sleeping with its memory: nothing is lost, and a resume tries again.
    fn stand_up(&self, mapper: &mut Mapper, beds: &[Bed]) {
        for bed in beds {
            let handle = match mapper.slot_holding(bed.at.0) {
                Some(Slot::Asleep { content: Content::Handle(handle), .. }) => handle.clone(),
                _ => continue,
            };
            if let Err(error) = self.stand(mapper, bed, &handle) {
                tracing::warn!(%error, at = %bed.at, "memory stays without rights, or unmapped: resume it");
            }
        }
    }

    /// What the driver shows as free on the devices of a ground, those where asking makes no context.
    fn free_bytes(&self, mapper: &Mapper, ground: &Ground) -> BTreeMap<DeviceId, (u64, u64)> {
        let devices = distinct(slots_of(mapper, ground).filter_map(|(_, slot)| Some(slot.current()?.device())));
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
