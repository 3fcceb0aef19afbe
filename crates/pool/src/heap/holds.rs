//! The blocks of a heap that somebody holds, by leases or views. It knows no lease, no view and no mapping.

use crate::clock::Clock;
use crate::heap::extents::Extent;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What holders keep in place, by first address. Holds last as long as work is prepared, so there are few.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    by_start: BTreeMap<u64, Hold>,
}

/// One block that is held.
#[derive(Debug)]
struct Hold {
    units: u32,
    /// How many hold it; never 0.
    holders: u32,
    /// Iff it was freed meanwhile: the streams, beside the owner's, whose work may use it.
    freed: Option<Vec<Arc<Clock>>>,
}

/// How a holder's leave ended.
#[derive(Debug)]
pub(crate) enum Left {
    /// Others hold the block, or it is live.
    Standing,
    /// Nobody holds it any more, and it was freed: its bytes, and the streams that may use them.
    Free(Extent, Vec<Arc<Clock>>),
}

impl Holds {
    /// One more holds the live block at `start`.
    pub(crate) fn add(&mut self, start: u64, units: u32) {
        self.by_start.entry(start).or_insert(Hold { units, holders: 0, freed: None }).holders += 1;
    }

    /// The block at `start` was freed. Gives the streams back if nobody holds it.
    pub(crate) fn defer(&mut self, start: u64, clocks: Vec<Arc<Clock>>) -> Option<Vec<Arc<Clock>>> {
        let Some(hold) = self.by_start.get_mut(&start) else { return Some(clocks) };
        hold.freed = Some(clocks);
        None
    }

    /// One holder of the block at `start` goes; these streams' work may use it from now on.
    pub(crate) fn leave(&mut self, start: u64, clocks: &[Arc<Clock>]) -> Left {
        let Some(hold) = self.by_start.get_mut(&start) else { return Left::Standing };
        if let Some(freed) = &mut hold.freed {
            clocks.iter().for_each(|clock| add(freed, clock));
        }
        hold.holders -= 1;
        if hold.holders > 0 {
            return Left::Standing;
        }
        let Some(Hold { units, freed: Some(freed), .. }) = self.by_start.remove(&start) else { return Left::Standing };
        Left::Free(Extent { start, units }, freed)
    }

    /// Work of these streams may use what was freed and is held.
    pub(crate) fn add_users(&mut self, clocks: &[Arc<Clock>]) {
        for freed in self.by_start.values_mut().filter_map(|hold| hold.freed.as_mut()) {
            clocks.iter().for_each(|clock| add(freed, clock));
        }
    }

    /// The first held block that has a byte in `[start, end)`, and how many hold it.
    pub(crate) fn within(&self, start: u64, end: u64) -> Option<(u64, u32)> {
        let before = self.by_start.range(..=start).next_back().filter(|(at, hold)| hold.extent(**at).end() > start);
        let (&at, hold) = before.or_else(|| self.by_start.range(start..end).next())?;
        Some((at, hold.holders))
    }

    /// Blocks that were freed and stand only because somebody holds them.
    pub(crate) fn freed(&self) -> impl Iterator<Item = Extent> + '_ {
        self.by_start.iter().filter(|(_, hold)| hold.freed.is_some()).map(|(&start, hold)| hold.extent(start))
    }

    /// Blocks that are held and live.
    pub(crate) fn live(&self) -> impl Iterator<Item = Extent> + '_ {
        self.by_start.iter().filter(|(_, hold)| hold.freed.is_none()).map(|(&start, hold)| hold.extent(start))
    }

    /// Bytes of host memory that they take.
    pub(crate) fn own_bytes(&self) -> u64 {
        (self.by_start.len() * size_of::<(u64, Hold)>()) as u64
    }
}

impl Hold {
    const fn extent(&self, start: u64) -> Extent {
        Extent { start, units: self.units }
    }
}

/// Adds a stream to those that use a block, once.
pub(crate) fn add(clocks: &mut Vec<Arc<Clock>>, clock: &Arc<Clock>) {
    if clocks.iter().all(|known| known.serial() != clock.serial()) {
        clocks.push(clock.clone());
    }
}
