//! Suspends blocks: their content is put away, their memory given back, their addresses kept. A transaction:
//! a refusal maps each handle again where it waits, and fills other memory where it has gone.

use crate::arena::Wakefulness;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::mapper::Mapper;
use crate::mapper::backup::{Backup, Content};
use crate::mapper::slot::Slot;
use crate::operation::bed::Bed;
use crate::operation::freight::{Batch, Freight};
use crate::scope::{Ground, Scope};
use std::collections::VecDeque;
use std::sync::Arc;
use stitchpool_chunks::PhysicalHandle;
use stitchpool_driver::{Address, DeviceId, Link};

/// What a suspend has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Suspended {
    /// Nothing was awake, and nothing was done.
    pub already: bool,
    /// Memory that the blocks gave back, in bytes, and idle memory of their arenas. What their backup takes in its
    /// place is not subtracted.
    pub released_bytes: u64,
    /// Content that was put away, in bytes.
    pub backup_bytes: u64,
    /// Bytes that were given back and that the driver does not show as free yet: another process may
    /// have taken them, or the driver keeps them.
    pub not_yet_visible_bytes: u64,
}

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
        let shown = self.shown(&mapper, ground);
        let held_before = mapper.held_without_trays();
        let idle = self.idle_slots(&mapper, ground);
        let mut beds = self.beds(&mapper, ground);
        beds.retain(|bed| !idle.contains_key(&bed.at));
        self.allow_backup(&users, &beds, backup)?;
        let mut freight = Freight::of(beds);
        let emptied = self
            .load(&mut mapper, &mut freight, backup)
            .and_then(|()| self.release_idle(&mut mapper, idle))
            .and_then(|()| self.lay_down(&mut mapper, &mut freight));
        if let Err(error) = emptied {
            self.undo_sleep(&mut mapper, ground, &users, freight);
            return Err(error);
        }
        note_evicted(&mut mapper, &freight.beds, ground.evicts);
        let released_bytes = held_before.saturating_sub(mapper.held_without_trays());
        drop(mapper);
        let backup_bytes = freight.bytes;
        let not_yet_visible_bytes = self.await_visible(&shown);
        tracing::info!(ground.title, released_bytes, backup_bytes, not_yet_visible_bytes, "suspended");
        Ok(Suspended { already: false, released_bytes, backup_bytes, not_yet_visible_bytes })
    }

    /// Refuses a backup in a place that would not do.
    fn allow_backup(&self, users: &[DeviceId], beds: &[Bed], backup: &Backup) -> Result<()> {
        let Backup::Peer(peer) = *backup else { return Ok(()) };
        self.known_device(peer)?;
        for &user in users {
            if self.origin.driver().link(user, peer)? == Link::None {
                return Err(Error::Unreachable { reader: user, owner: peer });
            }
        }
        match beds.iter().find(|bed| bed.device == peer) {
            Some(bed) => Err(Error::Backup(format!(
                "memory at {} lies on {peer} itself: a backup there frees nothing; name another device or the host",
                bed.at
            ))),
            None => Ok(()),
        }
    }

    /// Unmaps the beds behind their copies and gives their handles to the driver.
    fn lay_down(&self, mapper: &mut Mapper, freight: &mut Freight) -> Result<()> {
        let mut gone = VecDeque::new();
        let emptied = self.unmap_behind(mapper, freight, &mut gone);
        // Those too that went before a refusal: their content is elsewhere.
        gone.into_iter().for_each(|handle| mapper.settle(handle, false));
        emptied
    }

    /// Unmaps the beds batch after batch, while the next are still being copied if that can be, and releases handles
    /// in the time that is left before the next copy is done: what is unmapped late holds everything up, what is
    /// released late does not. What has no copies under way is one batch: nothing of it goes before all of it is
    /// unmapped.
    fn unmap_behind(
        &self,
        mapper: &mut Mapper,
        freight: &mut Freight,
        gone: &mut VecDeque<Arc<PhysicalHandle>>,
    ) -> Result<()> {
        while let Some(batch) = self.next_batch(mapper, freight)? {
            let Freight { beds, contents, .. } = &mut *freight;
            while !gone.is_empty() && !batch.copied.is_reached()? {
                gone.pop_front().into_iter().for_each(|handle| mapper.settle(handle, false));
            }
            batch.copied.reach(self.settings.wait_max)?;
            let beds = &beds[batch.beds];
            beds.iter().try_for_each(|bed| self.unmap_bed(mapper, bed.heap, bed.at, bed.bytes))?;
            gone.extend(
                beds.iter()
                    .zip(contents.drain(..beds.len()))
                    .filter_map(|(bed, content)| part_with(mapper, bed.at, content)),
            );
        }
        Ok(())
    }

    /// The next batch that is being copied; `None`: all have gone.
    fn next_batch(&self, mapper: &mut Mapper, freight: &mut Freight) -> Result<Option<Batch>> {
        if freight.batches.is_empty() {
            self.load_more(mapper, freight)?;
        }
        Ok(freight.batches.pop_front())
    }

    /// Undoes a suspend that was refused: each handle goes back where it was, and what had given its handle to
    /// the driver gets other memory. What cannot be undone goes on sleeping: nothing is lost, and a resume
    /// tries again.
    fn undo_sleep(&self, mapper: &mut Mapper, ground: &Ground, users: &[DeviceId], freight: Freight) {
        let (beds, lent) = (&freight.beds, freight.lent);
        // Copies may still be reading what is mapped, and writing trays.
        let quiet = self.await_copies(users);
        self.stand_up(mapper, beds);
        self.rouse_again(mapper, ground, beds);
        mapper.take_back(&beds[..lent]);
        let trays = freight.into_trays();
        if quiet {
            mapper.put_trays(trays);
        } else {
            mapper.doubt.take(users, trays);
        }
    }

    /// Puts handles back that wait in their slots. What the driver would not map again goes on sleeping with
    /// its memory.
    fn stand_up(&self, mapper: &mut Mapper, beds: &[Bed]) {
        for bed in beds {
            let handle = match mapper.slot_holding(bed.at.0).and_then(Slot::content) {
                Some(Content::Handle(handle)) => handle.clone(),
                _ => continue,
            };
            if let Err(error) = self.stand(mapper, bed, &handle) {
                tracing::warn!(%error, at = %bed.at, "memory stays without rights, or unmapped: resume it");
            }
        }
    }
}

/// A bed is unmapped and its content elsewhere: gives its handle.
fn part_with(mapper: &mut Mapper, at: Address, content: Content) -> Option<Arc<PhysicalHandle>> {
    match mapper.chain_holding_mut(at.0)?.set_content(at, content)? {
        Content::Handle(handle) => Some(handle),
        _ => None,
    }
}

/// Writes down whether what fell asleep was put out because memory was short.
fn note_evicted(mapper: &mut Mapper, beds: &[Bed], evicted: bool) {
    for bed in beds {
        if let Some(chain) = mapper.chain_holding_mut(bed.at.0) {
            chain.evicted = evicted;
        }
    }
    if evicted && !beds.is_empty() {
        mapper.counts.evictions += 1;
        mapper.counts.evicted_bytes += beds.iter().map(|bed| bed.bytes).sum::<u64>();
    }
}
