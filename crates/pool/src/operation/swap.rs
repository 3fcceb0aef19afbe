//! Puts other memory behind addresses: migrates blocks to another device, and exchanges what stands behind
//! two ranges. A transaction: until the commit every old handle is kept, and a refusal maps it again.

use crate::arena::{ArenaId, Wakefulness};
use crate::devices::distinct;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::mapper::Mapper;
use crate::mapper::backup::Content;
use crate::mapper::slot::Slot;
use crate::operation::bed::{Bed, slots_of};
use crate::operation::courier::{Courier, Load};
use crate::operation::refuse_pinned;
use crate::scope::{Ground, Scope};
use std::sync::Arc;
use stitchpool_chunks::{PhysicalHandle, Reservation, RunFailure, Vacancy, join_all, map_run};
use stitchpool_driver::{Address, DeviceId, Grant, HandleSpec, Link, Rights};

/// What a migration has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Migrated {
    /// Memory that was taken on the new device, in bytes, and given back elsewhere.
    pub moved_bytes: u64,
    /// Content that was copied, in bytes.
    pub copied_bytes: u64,
}

/// So much is copied through one place before the next can be.
const BENCH_BYTES: u64 = 256 << 20;

/// A slot that gets other memory.
struct Change {
    bed: Bed,
    old: Arc<PhysicalHandle>,
    new: Arc<PhysicalHandle>,
}

impl Engine {
    /// Moves the memory of a scope to `device`; addresses, content and rights stay.
    pub(crate) fn migrate(&self, scope: Scope, device: DeviceId) -> Result<Migrated> {
        self.known_device(device)?;
        let ground = match self.close(scope, Wakefulness::Awake, "migrate")? {
            Some(ground) => ground,
            None => self.unbacked(scope)?,
        };
        self.with_notice(&[&ground], None, || self.move_all(&ground, device))
    }

    /// What of which nothing is awake still can be: a range of a growable buffer that has no memory. All else sleeps.
    fn unbacked(&self, scope: Scope) -> Result<Ground> {
        let mut mapper = self.mapper.lock();
        self.forget_freed(&mut mapper);
        let ground = self.ground(&mapper, scope)?;
        let in_use = |heap: u32, at: Address| {
            self.registry.heap(heap).is_some_and(|heap| heap.inside.lock().block_at(at.0).is_some())
        };
        // What was freed without its content is owed none.
        let sleeps = |(heap, slot): (u32, &Slot)| match slot {
            Slot::Asleep { .. } => true,
            _ => mapper.is_asleep_at(slot.at().0) && in_use(heap, slot.at()),
        };
        let any = slots_of(&mapper, &ground).any(sleeps);
        if any || !ground.arenas.is_empty() { Err(Error::Asleep { what: ground.title }) } else { Ok(ground) }
    }

    fn move_all(&self, ground: &Ground, device: DeviceId) -> Result<Migrated> {
        let (mut mapper, users) = self.clear(ground, "migrate")?;
        for &user in &users {
            if self.origin.driver().link(user, device)? == Link::None {
                return Err(Error::Unreachable { reader: user, owner: device });
            }
        }
        let idle = self.idle_slots(&mapper, ground);
        self.release_idle(&mut mapper, idle)?;
        let beds: Vec<Bed> = self.beds(&mapper, ground).into_iter().filter(|bed| bed.device != device).collect();
        let handles = self.create_for(&mut mapper, &beds, device)?;
        mapper.lend(&beds)?;
        let copied_bytes = self.copy_over(&beds, &handles).inspect_err(|_| mapper.take_back(&beds))?;
        let changes = changes(&mapper, beds, handles);
        let moved_bytes = changes.iter().map(|change| change.bed.bytes).sum();
        let changed = self.change(&mut mapper, &changes);
        if let Err(error) = changed {
            mapper.take_back(changes.iter().map(|change| &change.bed));
            return Err(error);
        }
        commit_move(&mut mapper, changes, device);
        self.send(&mut mapper, ground, device);
        tracing::info!(ground.title, %device, moved_bytes, "migrated");
        Ok(Migrated { moved_bytes, copied_bytes })
    }

    /// What of growable buffers is on the ground lies on this device from now on, whenever it is backed. Arenas that
    /// sleep stay where they are.
    fn send(&self, mapper: &mut Mapper, ground: &Ground, device: DeviceId) {
        let asleep = |arena: ArenaId| {
            let mut before = ground.arenas.iter().zip(&ground.before);
            before.any(|(&known, (was, _))| known == arena && *was == Wakefulness::Asleep)
        };
        let sent = |heap: &Heap| heap.inside.lock().tenant.as_ref().is_some_and(|tenant| !asleep(tenant.key.arena));
        let heaps: Vec<u32> = self.heaps_on(ground).filter(|heap| sent(heap)).map(|heap| heap.index).collect();
        for chain in mapper.chains.values_mut().filter(|chain| chain.is_kept() && heaps.contains(&chain.heap())) {
            let part = ground.span.start.max(chain.at().0)..ground.span.end.min(chain.end().0);
            if !part.is_empty() {
                chain.places.change(part, |_| device);
            }
        }
    }

    /// New handles of the beds' sizes on `device`: all or none.
    fn create_for(&self, mapper: &mut Mapper, beds: &[Bed], device: DeviceId) -> Result<Vec<Arc<PhysicalHandle>>> {
        let bytes: u64 = beds.iter().map(|bed| bed.bytes).sum();
        let kind = mapper.settings.kind;
        self.trim_for(mapper, device, |mapper| {
            mapper.refuse_beyond_limit(device, bytes)?;
            let one = |bed: &Bed| PhysicalHandle::create(&self.origin, HandleSpec { device, bytes: bed.bytes, kind });
            Ok(beds.iter().map(one).collect::<std::result::Result<_, _>>()?)
        })
    }

    /// Copies the beds' content to their new handles, batch after batch, through addresses that are kept for
    /// no longer than that.
    fn copy_over(&self, beds: &[Bed], handles: &[Arc<PhysicalHandle>]) -> Result<u64> {
        let widest = beds.iter().map(|bed| bed.bytes).max().unwrap_or(0);
        if widest == 0 {
            return Ok(0);
        }
        let mut bench = Reservation::reserve(&self.origin, widest.max(BENCH_BYTES), 0)?;
        let mut copied_bytes = 0;
        let mut first = 0;
        while first < beds.len() {
            let mut bytes = 0;
            let stream = beds[first].stream;
            let same = beds[first..].iter().take_while(|bed| {
                let fits = bed.stream == stream && bytes + bed.bytes <= bench.bytes();
                bytes += if fits { bed.bytes } else { 0 };
                fits
            });
            let last = first + same.count();
            let (back, copied) = self.copy_batch(bench, &beds[first..last], &handles[first..last])?;
            bench = back;
            copied_bytes += copied;
            first = last;
        }
        Ok(copied_bytes)
    }

    fn copy_batch(&self, bench: Vacancy, beds: &[Bed], handles: &[Arc<PhysicalHandle>]) -> Result<(Vacancy, u64)> {
        let grants = [Grant { device: beds[0].stream.device, rights: Rights::ReadWrite }];
        let (run, rest) = map_run(bench, handles.to_vec(), &grants).map_err(|RunFailure { error, .. }| error)?;
        let mut courier = Courier::new(&self.origin);
        let mut bytes = 0;
        let queued = beds.iter().zip(&run).try_for_each(|(bed, target)| {
            bed.runs.iter().try_for_each(|&(start, end)| {
                bytes += end - start;
                let to = target.at() + (start - bed.at.0);
                let devices = (bed.device, target.device());
                courier.take(Load { stream: bed.stream, devices, from: Address(start), to, bytes: end - start })
            })
        });
        let waited = queued.and_then(|()| courier.mark(bytes)?.reach(self.settings.wait_max));
        if let Err(error) = waited {
            if !self.await_copies(&[beds[0].stream.device]) {
                // A copy may still be writing there: better lost than unmapped under it.
                std::mem::forget(run);
            }
            return Err(error.into());
        }
        let mut vacancies = Vec::with_capacity(run.len() + 1);
        for mapping in run {
            vacancies.push(mapping.unmap().map_err(|(error, _)| error)?.0);
        }
        let whole = join_all(vacancies.into_iter().chain(rest)).pop();
        // Neighbours of one reservation always join.
        whole.map(|whole| (whole, bytes)).ok_or_else(|| self.unknown(beds[0].at))
    }

    /// Unmaps every old handle and maps the new one in its place: all or nothing.
    fn change(&self, mapper: &mut Mapper, changes: &[Change]) -> Result<()> {
        let changed = changes
            .iter()
            .try_for_each(|Change { bed, .. }| self.unmap_bed(mapper, bed.heap, bed.at, bed.bytes))
            .and_then(|()| changes.iter().try_for_each(|change| self.stand(mapper, &change.bed, &change.new)));
        if let Err(error) = changed {
            for change in changes {
                self.restore(mapper, change);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Puts the old handle back. Where the driver refuses, the slot sleeps with it, and a resume tries again.
    fn restore(&self, mapper: &mut Mapper, Change { bed, old, .. }: &Change) {
        let stands =
            |mapper: &Mapper| mapper.slot_holding(bed.at.0).and_then(Slot::current).map(|here| here.handle().clone());
        match stands(mapper) {
            Some(here) if Arc::ptr_eq(&here, old) => return,
            Some(_) => {
                if let Err(error) = self.unmap_bed(mapper, bed.heap, bed.at, bed.bytes) {
                    tracing::warn!(%error, at = %bed.at, "new memory stays where the old was");
                    return;
                }
            }
            None => {}
        }
        if let Some(chain) = mapper.chain_holding_mut(bed.at.0) {
            chain.set_content(bed.at, Content::Handle(old.clone()));
        }
        if let Err(error) = self.stand(mapper, bed, old) {
            tracing::warn!(%error, at = %bed.at, "memory stays unmapped: resume it");
        }
    }

    /// Exchanges the memory behind two ranges of the same layout. Nothing is copied.
    pub(crate) fn exchange(&self, one: Scope, other: Scope) -> Result<()> {
        let (mut users, mut grounds) = (Vec::new(), Vec::new());
        for scope in [one, other] {
            if matches!(scope, Scope::All | Scope::Arena(_)) {
                return Err(Error::Setting("an exchange is about two blocks or ranges, not about arenas".into()));
            }
            let ground = match self.close(scope, Wakefulness::Awake, "exchange")? {
                Some(ground) => ground,
                None => self.unbacked(scope)?,
            };
            users.extend(self.users_of(&self.mapper.lock(), &ground));
            grounds.push(ground);
        }
        let [first, second] = [&grounds[0].span, &grounds[1].span];
        if first != second && first.start < second.end && second.start < first.end {
            return Err(Error::Setting("the two ranges of an exchange overlap: name the same, or apart".into()));
        }
        let users = distinct(users);
        let both: Vec<&Ground> = grounds.iter().collect();
        self.with_notice(&both, None, || self.cross(one, other, &users))
    }

    fn cross(&self, one: Scope, other: Scope, users: &[DeviceId]) -> Result<()> {
        self.await_all(users)?;
        let mut mapper = self.mapper.lock();
        self.quiesce(&mut mapper, users, "exchange")?;
        let mut sides = Vec::new();
        for scope in [one, other] {
            let ground = self.ground(&mapper, scope)?;
            self.refuse_held(&ground)?;
            refuse_pinned(&mapper, &ground)?;
            let beds = self.beds(&mapper, &ground);
            demand_filled(&mapper, &ground, &beds)?;
            sides.push((beds, self.users_of(&mapper, &ground)));
        }
        let changes = self.crossed(&mapper, sides)?;
        self.change(&mut mapper, &changes)
    }

    /// Each bed with the handle of its counterpart, if that may stand there.
    fn crossed(&self, mapper: &Mapper, sides: Vec<(Vec<Bed>, Vec<DeviceId>)>) -> Result<Vec<Change>> {
        let [(ones, one_users), (others, other_users)] = sides.as_slice() else { return Ok(Vec::new()) };
        let layout = |beds: &[Bed]| beds.iter().map(|bed| bed.bytes).collect::<Vec<_>>();
        if layout(ones) != layout(others) {
            let total = |beds: &[Bed]| beds.iter().map(|bed| bed.bytes).sum();
            return Err(Error::Layout {
                handles: (ones.len() as u64, others.len() as u64),
                bytes: (total(ones), total(others)),
            });
        }
        if ones.first().zip(others.first()).is_some_and(|(one, other)| one.at == other.at) {
            return Ok(Vec::new());
        }
        for (users, beds) in [(one_users, others), (other_users, ones)] {
            for (&reader, bed) in users.iter().flat_map(|user| beds.iter().map(move |bed| (user, bed))) {
                if self.origin.driver().link(reader, bed.device)? == Link::None {
                    return Err(Error::Unreachable { reader, owner: bed.device });
                }
            }
        }
        let handle =
            |bed: &Bed| mapper.slot_holding(bed.at.0).and_then(Slot::current).map(|here| here.handle().clone());
        let pairs = ones.iter().zip(others).flat_map(|(one, other)| [(one, other), (other, one)]);
        let changes =
            pairs.filter_map(|(bed, giver)| Some(Change { bed: bed.clone(), old: handle(bed)?, new: handle(giver)? }));
        Ok(changes.collect())
    }
}

/// Each bed with the handle that stands there and the one that shall.
fn changes(mapper: &Mapper, beds: Vec<Bed>, handles: Vec<Arc<PhysicalHandle>>) -> Vec<Change> {
    let pairs = beds.into_iter().zip(handles);
    let changes = pairs.filter_map(|(bed, new)| {
        let old = mapper.slot_holding(bed.at.0)?.current()?.handle().clone();
        Some(Change { bed, old, new })
    });
    changes.collect()
}

/// New memory stands everywhere: it is counted, and the old goes.
fn commit_move(mapper: &mut Mapper, changes: Vec<Change>, device: DeviceId) {
    for Change { bed, old, new } in changes {
        drop(new);
        mapper.count_in(device, bed.bytes);
        mapper.settle(old, false);
    }
}

/// Refuses a ground of which not all is in use and awake.
fn demand_filled(mapper: &Mapper, ground: &Ground, beds: &[Bed]) -> Result<()> {
    let mut at = ground.span.start;
    for bed in beds.iter().take_while(|bed| !bed.runs.is_empty()) {
        if bed.at.0 != at {
            break;
        }
        at += bed.bytes;
    }
    if at >= ground.span.end {
        return Ok(());
    }
    match mapper.chain_holding(at).filter(|chain| chain.is_kept_at(Address(at))) {
        Some(chain) if !mapper.is_asleep_at(at) => Err(Error::NotBacked { offset_bytes: at - chain.at().0 }),
        _ => Err(Error::Asleep { what: format!("a part of {}", ground.title) }),
    }
}
