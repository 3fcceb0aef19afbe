//! A portion of a growable buffer: what shall be backed of it, where that shall lie, and what stands there now. It
//! changes nothing.

use crate::error::{Error, Result};
use crate::heap::inside::Inside;
use crate::mapper::Mapper;
use crate::mapper::chain::{Chain, Gap};
use crate::mapper::slot::Slot;
use crate::miss::layout::Layout;
use stitchpool_chunks::{Piece, Placement};
use stitchpool_driver::DeviceId;

/// What a job shall back, in place of a block: all of `[start, end)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    /// Where the buffer's chain begins.
    pub(crate) chain: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// No handle crosses a multiple of this, from the buffer's begin on.
    pub(crate) step_bytes: u64,
    /// How long the buffer can become: a placement by shares is laid over all of it.
    pub(crate) max_bytes: u64,
}

/// What is not backed of a portion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lack {
    /// Addresses that nothing stands at, in address order; two never touch.
    pub(crate) gaps: Vec<Gap>,
    /// Slots that still have their memory, though no block is in them: each is taken back whole.
    pub(crate) idle: Vec<Gap>,
    /// How much of the idle slots other streams may still be using.
    pub(crate) pending_bytes: u64,
    /// How much the memory was taken from while work that used it may still run, or sleeps.
    pub(crate) absent_bytes: u64,
}

impl Lack {
    /// All of it.
    pub(crate) fn bytes(&self) -> u64 {
        let sum = |gaps: &[Gap]| gaps.iter().map(|gap| gap.bytes).sum::<u64>();
        sum(&self.gaps) + sum(&self.idle) + self.absent_bytes
    }

    fn add_gap(&mut self, start: u64, end: u64) {
        match self.gaps.last_mut() {
            _ if start >= end => {}
            Some(gap) if gap.end() == start => gap.bytes = end - gap.start,
            _ => self.gaps.push(Gap { start, bytes: end - start }),
        }
    }
}

impl Portion {
    /// Where the chain of this portion has slots in it, from the first on.
    pub(crate) fn slots<'a>(&self, chain: &'a Chain) -> impl Iterator<Item = &'a Slot> + use<'a> {
        let (first, end) = (chain.slots().partition_point(|slot| slot.end().0 <= self.start), self.end);
        chain.slots()[first..].iter().take_while(move |slot| slot.at().0 < end)
    }

    /// What is not backed of it now.
    pub(crate) fn lack(&self, mapper: &Mapper, inside: &Inside) -> Result<Lack> {
        let mut lack = Lack::default();
        let Some(chain) = mapper.chains.get(&self.chain) else { return Ok(lack) };
        let displaced: Vec<u64> = self.displaced(mapper, inside)?.iter().map(|slot| slot.at().0).collect();
        for slot in self.slots(chain).filter(|slot| !inside.has_block(slot.at().0)) {
            let (at, bytes) = (slot.at().0, slot.bytes());
            match slot {
                Slot::Current { .. } if displaced.binary_search(&at).is_ok() => lack.absent_bytes += bytes,
                Slot::Current { .. } => {
                    lack.idle.push(Gap { start: at, bytes });
                    let touches = |start: u64, end: u64| start < at + bytes && at < end;
                    if inside.pending.iter().any(|block| touches(block.start, block.extent().end())) {
                        lack.pending_bytes += bytes;
                    }
                }
                Slot::Stale { .. } | Slot::Asleep { .. } => lack.absent_bytes += bytes,
                Slot::Hole(_) => lack.add_gap(at.max(self.start), (at + bytes).min(self.end)),
                // Views have chains of their own.
                Slot::Lost { .. } | Slot::Viewed(_) => return Err(Error::Lost { at: slot.at(), bytes }),
            }
            if let Some((address, holders)) = inside.held_in(at, at + bytes) {
                return Err(Error::Held { address, holders });
            }
        }
        if !chain.reaches(self.end) {
            let at = chain.top();
            return Err(Error::Lost { at, bytes: self.end - at.0 });
        }
        lack.add_gap(chain.top().0.max(self.start), self.end);
        Ok(lack)
    }

    /// The idle slots in it whose memory lies elsewhere than it shall, or that a failed resume left without rights. What
    /// a graph or a pin keeps in place is not among them: it serves where it is.
    pub(crate) fn displaced<'a>(&self, mapper: &'a Mapper, inside: &Inside) -> Result<Vec<&'a Slot>> {
        let (Some(chain), Some(tenant)) = (mapper.chains.get(&self.chain), &inside.tenant) else {
            return Ok(Vec::new());
        };
        let stays = |slot: &Slot| mapper.pins.touch(slot.at().0, slot.end().0);
        let idle = self.slots(chain).filter(|slot| !inside.has_block(slot.at().0) && !stays(slot));
        let idle: Vec<(&Slot, DeviceId)> = idle.filter_map(|slot| Some((slot, slot.current()?.device()))).collect();
        let ([(first, _), ..], [.., (last, _)], false) = (&idle[..], &idle[..], mapper.serves_graph(inside)) else {
            return Ok(Vec::new());
        };
        let lies = |slot: &Slot| (slot.at().0 - self.chain, slot.end().0 - self.chain);
        let part = (lies(first).0, lies(last).1);
        let layout = Layout::of_buffer(chain, &tenant.key.placement, part, mapper.granule_bytes())?;
        let unfilled = |slot: &Slot| mapper.is_unfilled(slot.at().0, slot.end().0);
        let displaced = idle.iter().filter(|(slot, device)| !layout.allows(lies(slot), *device) || unfilled(slot));
        Ok(displaced.map(|(slot, _)| *slot).collect())
    }

    /// From where to where it reaches together with its idle slots.
    pub(crate) fn span(&self, lack: &Lack) -> (u64, u64) {
        let start = lack.idle.first().map_or(self.start, |gap| gap.start.min(self.start));
        let end = lack.idle.last().map_or(self.end, |gap| gap.end().max(self.end));
        (start, end)
    }

    /// What the gaps of its chain shall be filled with: pieces for the devices where it shall lie, cut at the steps,
    /// and where rights change.
    pub(crate) fn pieces(&self, gaps: &[Gap], placement: &Placement, mapper: &Mapper) -> Result<Vec<Piece>> {
        let ([first, ..], [.., last], Some(chain)) = (gaps, gaps, mapper.chains.get(&self.chain)) else {
            return Ok(Vec::new());
        };
        let part = (first.start - self.chain, last.end() - self.chain);
        let layout = Layout::of_buffer(chain, placement, part, mapper.granule_bytes())?;
        let mut pieces = Vec::new();
        for gap in gaps {
            let (mut at, end) = (gap.start - self.chain, gap.end() - self.chain);
            while let Some((border, device)) = layout.at(at).filter(|_| at < end) {
                let step_end = (at / self.step_bytes + 1) * self.step_bytes;
                let rights_end = chain.rights.border_behind(self.chain + at).map_or(end, |border| border - self.chain);
                let next = end.min(border).min(step_end).min(rights_end);
                pieces.push(Piece { device, bytes: next - at });
                at = next;
            }
        }
        Ok(pieces)
    }
}
