//! Slots that have memory again and are being filled: batch after batch, and while one is filled the driver
//! makes the next. What has risen can be laid back, with what it held.

use crate::devices::distinct;
use crate::engine::Engine;
use crate::error::Result;
use crate::mapper::Mapper;
use crate::mapper::backup::{Content, Store};
use crate::mapper::slot::Slot;
use crate::operation::batch::Measure;
use crate::operation::bed::Bed;
use crate::operation::courier::{Courier, Load, Milestone};
use crate::operation::incoming::{Incoming, Source, Supply};
use crate::operation::read_ahead::ReadAhead;
use crate::operation::sleeper::Sleeper;
use crate::scope::Ground;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use stitchpool_chunks::{memset, write};
use stitchpool_driver::Address;

/// A slot that is mapped again, with what it held before.
#[derive(Debug)]
pub(crate) struct Risen {
    sleeper: Sleeper,
    source: Source,
    content: Content,
}

/// A batch that is being filled.
struct Filling {
    risen: Range<usize>,
    copied: Milestone,
}

/// What blocks come back filled with whose content was discarded, where the settings want that.
const POISON: u8 = 0xA5;

impl Engine {
    /// Finds memory for the sleepers, maps it at their addresses and fills it, and waits for that. On a
    /// refusal what has risen is to be laid back.
    pub(crate) fn rouse(
        &self,
        mapper: &mut Mapper,
        sleepers: &[Sleeper],
        supply: &mut Supply,
        risen: &mut Vec<Risen>,
    ) -> Result<u64> {
        let roused = self.rouse_by_batches(mapper, sleepers, supply, risen);
        self.give_back(mapper, supply);
        roused
    }

    fn rouse_by_batches(
        &self,
        mapper: &mut Mapper,
        sleepers: &[Sleeper],
        supply: &mut Supply,
        risen: &mut Vec<Risen>,
    ) -> Result<u64> {
        self.provide_if_short(mapper, sleepers, supply)?;
        let origin = self.origin.clone();
        let mut courier = Courier::new(&origin);
        let slots = sleepers.iter().filter_map(|sleeper| mapper.slot_holding(sleeper.at.0));
        let mut files = ReadAhead::over(slots.filter_map(Slot::content));
        let mut restored_bytes = 0;
        let mut under_way = VecDeque::new();
        let mut rest = sleepers;
        while !rest.is_empty() {
            let neighbours = rest.iter().zip(&rest[1..]).take_while(|(one, next)| one.is_followed_by(next)).count();
            let count = Measure::SMALL.next_batch(rest[..=neighbours].iter().map(|sleeper| sleeper.bytes));
            let (batch, behind) = rest.split_at(count);
            self.provide(mapper, batch, supply)?;
            let first = risen.len();
            self.raise(mapper, batch, supply.take(count), risen)?;
            for Risen { sleeper, content, .. } in &risen[first..] {
                restored_bytes += self.fill(&mut courier, &mut files, sleeper, content)?;
            }
            // It runs while the driver makes the next batch.
            let copied = courier.mark(batch.iter().map(|sleeper| sleeper.bytes).sum())?;
            under_way.push_back(Filling { risen: first..risen.len(), copied });
            // A refusal to tell is told by the wait.
            while under_way.front().is_some_and(|filling| filling.copied.is_reached().unwrap_or(false)) {
                self.end_filling(mapper, risen, under_way.pop_front())?;
            }
            rest = behind;
        }
        while !under_way.is_empty() {
            self.end_filling(mapper, risen, under_way.pop_front())?;
        }
        Ok(restored_bytes)
    }

    /// Waits until a batch is filled, and gives whoever has filled it the rights that it shall have.
    fn end_filling(&self, mapper: &Mapper, risen: &[Risen], filling: Option<Filling>) -> Result<()> {
        let Some(Filling { risen: batch, copied }) = filling else { return Ok(()) };
        copied.reach(self.settings.wait_max)?;
        Ok(risen[batch].iter().try_for_each(|risen| risen.sleeper.settle_rights(mapper))?)
    }

    /// Maps one batch of neighbours.
    fn raise(
        &self,
        mapper: &mut Mapper,
        batch: &[Sleeper],
        handles: Vec<Incoming>,
        risen: &mut Vec<Risen>,
    ) -> Result<()> {
        let (at, grants) = (batch[0].at, batch[0].filling_grants());
        let Some(heap) = self.registry.heap(batch[0].heap) else { return Err(self.unknown(at)) };
        let Some(chain) = mapper.chain_holding_mut(at.0) else { return Err(self.unknown(at)) };
        let raised = chain.raise(at, handles.iter().map(|incoming| incoming.handle.clone()).collect(), &grants);
        let contents = match raised {
            Ok(contents) => contents,
            Err((error, stuck)) => {
                for (sleeper, incoming) in batch.iter().zip(handles) {
                    match stuck.iter().any(|(at, _)| *at == sleeper.at) {
                        true => Incoming::book(incoming.source, mapper, sleeper.device, sleeper.bytes),
                        false => incoming.give_back(mapper),
                    }
                }
                mapper.note_unfilled(heap, stuck);
                return Err(error.into());
            }
        };
        for ((sleeper, incoming), (_, content)) in batch.iter().zip(handles).zip(contents) {
            heap.note_asleep(0, sleeper.bytes);
            risen.push(Risen { sleeper: sleeper.clone(), source: incoming.source, content });
        }
        Ok(())
    }

    /// Queues what brings a slot's content back, or does it at once where it lies in a file.
    pub(crate) fn fill(
        &self,
        courier: &mut Courier<'_>,
        files: &mut ReadAhead,
        sleeper: &Sleeper,
        content: &Content,
    ) -> Result<u64> {
        let parts = match content {
            Content::Handle(_) => return Ok(0),
            Content::Discarded => {
                if self.settings.poison {
                    memset(&self.origin, sleeper.stream, sleeper.at, sleeper.bytes, POISON)?;
                    courier.note(sleeper.stream);
                }
                return Ok(0);
            }
            Content::Parts(parts) => parts,
        };
        for part in parts {
            match &part.store {
                Store::Tray(tray, offset) => {
                    let (from, to) = (tray.at() + *offset, Address(part.at));
                    let devices = (tray.device(), sleeper.device);
                    courier.take(Load { stream: sleeper.stream, devices, from, to, bytes: part.bytes })?;
                }
                Store::File(..) => write(&self.origin, sleeper.stream.device, Address(part.at), &files.next()?)?,
            }
        }
        Ok(parts.iter().map(|part| part.bytes).sum())
    }

    /// Undoes a `rouse`: every slot sleeps again with what it held. One that the driver would not unmap keeps
    /// its memory; what it held is kept for the next resume.
    pub(crate) fn lay_back(&self, mapper: &mut Mapper, risen: Vec<Risen>) {
        let users = distinct(risen.iter().map(|risen| risen.sleeper.stream.device));
        let quiet = self.await_copies(&users);
        if !quiet {
            mapper.doubt.take(&users, Vec::new());
        }
        for Risen { sleeper: Sleeper { heap, at, bytes, device, .. }, source, content } in risen {
            // Nothing is unmapped under a copy that may be under way.
            let lay = |mapper: &mut Mapper| quiet && self.unmap_bed(mapper, heap, at, bytes).is_ok();
            if !lay(mapper) && !lay(mapper) {
                tracing::warn!(%at, "memory stays mapped without its content: resume again");
                mapper.unfilled.insert(at.0, (heap, content));
                Incoming::book(source, mapper, device, bytes);
                continue;
            }
            let laid = mapper.chain_holding_mut(at.0).and_then(|chain| chain.set_content(at, content));
            if let Some(Content::Handle(handle)) = laid {
                Incoming { handle, source }.give_back(mapper);
            }
        }
    }

    /// Brings back what a suspend that has failed had given to the driver already. Where memory is not there
    /// any more it sleeps on with its backup, and a resume tries again.
    pub(crate) fn rouse_again(&self, mapper: &mut Mapper, ground: &Ground, gone: &[Bed]) {
        let gone: BTreeSet<Address> = gone.iter().map(|bed| bed.at).collect();
        let sleepers: Vec<Sleeper> =
            self.sleepers(mapper, ground).into_iter().filter(|sleeper| gone.contains(&sleeper.at)).collect();
        let mut risen = Vec::with_capacity(sleepers.len());
        match self.rouse(mapper, &sleepers, &mut Supply::default(), &mut risen) {
            Ok(_) => _ = commit(mapper, risen, Vec::new()),
            Err(error) => {
                tracing::warn!(%error, ground.title, "memory that was given back is not there again: resume it");
                self.lay_back(mapper, risen);
            }
        }
    }
}

/// All is filled: the backups go. Says how much memory was taken. `filled` had memory already.
pub(crate) fn commit(mapper: &mut Mapper, risen: Vec<Risen>, filled: Vec<Address>) -> u64 {
    let mut trays = Vec::new();
    let mut taken_bytes = 0;
    let mut back = filled;
    for Risen { sleeper: Sleeper { at, bytes, device, .. }, source, content } in risen {
        taken_bytes += bytes;
        Incoming::book(source, mapper, device, bytes);
        back.push(at);
        trays.extend(content.into_trays());
    }
    note_returned(mapper, &back);
    mapper.put_trays(trays);
    taken_bytes
}

/// Slots are back with their content. All of an evicted block comes back at once, or a part that was named: the rest
/// is as any that sleeps.
fn note_returned(mapper: &mut Mapper, back: &[Address]) {
    let bytes_of = |at: &Address| {
        let chain = mapper.chain_holding(at.0).filter(|chain| chain.evicted)?;
        chain.slot_holding(*at).map(Slot::bytes)
    };
    mapper.counts.returned_bytes += back.iter().filter_map(bytes_of).sum::<u64>();
    for at in back {
        if let Some(chain) = mapper.chain_holding_mut(at.0) {
            chain.evicted = false;
        }
    }
}
