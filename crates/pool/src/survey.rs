//! What stands where at one moment, slot by slot, for pictures and reports. It changes nothing, and no hit waits
//! for it but while its own heap is read.

use crate::heap::Heap;
use crate::heap::extents::Extent;
use crate::mapper::Mapper;
use crate::mapper::chain::Chain;
use crate::mapper::slot::Slot;
use stitchpool_chunks::{PhysicalHandle, Stock};
use stitchpool_driver::{Address, DeviceId, RawHandle};

/// Everything that a pool has at addresses or keeps idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Every slot of every chain, in address order.
    pub slots: Vec<SurveyedSlot>,
    /// The handles that no address names, kept for reuse.
    pub idle: Vec<SurveyedHandle>,
}

/// A place in a chain. Live, pending and free bytes of a current or sleeping slot add up to its length; of all others
/// they are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurveyedSlot {
    /// Its first address.
    pub at: Address,
    /// Its length.
    pub bytes: u64,
    /// The first address of its chain.
    pub chain: Address,
    /// What it is.
    pub state: SlotState,
    /// The memory behind it: iff it is current, stale or viewed.
    pub handle: Option<SurveyedHandle>,
    /// Its bytes in live blocks.
    pub live_bytes: u64,
    /// Its bytes in blocks that were freed and that other streams may still be using.
    pub pending_bytes: u64,
}

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotState {
    /// Its handle is in use here.
    Current,
    /// Its handle was moved elsewhere, and still stands here until the GPU is past it.
    Stale,
    /// A view of a handle that is in use elsewhere.
    Viewed,
    /// Its blocks are suspended: their memory stands nowhere, or waits without an address.
    Asleep,
    /// Nothing stands here any more.
    Hole,
    /// The driver refused to take the memory back; the address is gone for good.
    Lost,
}

/// A physical handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SurveyedHandle {
    /// The driver's value; one that was released may come again.
    pub raw: RawHandle,
    /// Whose memory it is.
    pub device: DeviceId,
    /// How much.
    pub bytes: u64,
}

impl Survey {
    pub(crate) fn of(mapper: &Mapper, heaps: &[&Heap]) -> Self {
        let slots = mapper.chains.values().flat_map(|chain| chain.slots().iter().map(move |slot| (chain, slot)));
        let mut survey = Self { slots: slots.map(SurveyedSlot::of).collect(), idle: idle(&mapper.stock) };
        for heap in heaps {
            let inside = heap.inside.lock();
            inside.blocks().for_each(|block| survey.share(block, |slot, bytes| slot.live_bytes += bytes));
            let pending = inside.pending.iter().map(|block| block.extent());
            pending.for_each(|block| survey.share(block, |slot, bytes| slot.pending_bytes += bytes));
        }
        survey
    }

    /// Tells the slots that a run of bytes lies in how many of them each has.
    fn share(&mut self, run: Extent, tell: impl Fn(&mut SurveyedSlot, u64)) {
        let first = self.slots.partition_point(|slot| slot.end() <= run.start);
        for slot in self.slots[first..].iter_mut().take_while(|slot| slot.at.0 < run.end()) {
            let bytes = slot.end().min(run.end()) - slot.at.0.max(run.start);
            tell(slot, bytes);
        }
    }
}

impl SurveyedSlot {
    fn of((chain, slot): (&Chain, &Slot)) -> Self {
        let state = match slot {
            Slot::Current { .. } => SlotState::Current,
            Slot::Stale { .. } => SlotState::Stale,
            Slot::Viewed(_) => SlotState::Viewed,
            Slot::Asleep { .. } => SlotState::Asleep,
            Slot::Hole(_) => SlotState::Hole,
            Slot::Lost { .. } => SlotState::Lost,
        };
        let handle = slot.mapping().map(|mapping| SurveyedHandle::of(mapping.handle()));
        let (at, bytes, chain) = (slot.at(), slot.bytes(), chain.at());
        Self { at, bytes, chain, state, handle, live_bytes: 0, pending_bytes: 0 }
    }

    const fn end(&self) -> u64 {
        self.at.0 + self.bytes
    }
}

impl SurveyedHandle {
    fn of(handle: &PhysicalHandle) -> Self {
        Self { raw: handle.raw(), device: handle.device(), bytes: handle.bytes() }
    }
}

fn idle(stock: &Stock) -> Vec<SurveyedHandle> {
    stock.handles().map(|handle| SurveyedHandle::of(handle)).collect()
}
