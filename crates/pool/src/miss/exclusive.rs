//! Blocks with handles of their own: each in a chain of its own, of which no other block ever has a part.

use crate::heap::extents::Extent;
use crate::mapper::Mapper;
use crate::mapper::chain::Chain;
use crate::mapper::slot::Slot;
use crate::miss::job::Job;
use crate::miss::layout::Layout;

impl Job<'_> {
    /// Takes the chain of a freed block as it stands, if all of it is free and it has exactly the length:
    /// no driver call. What was freed on the own stream may be used there at once. A block that was freed
    /// asleep has no memory, one that was migrated or exchanged has it elsewhere, and rights set for one are not
    /// the next's.
    pub(crate) fn take_chain(&self, mapper: &Mapper) -> Option<u64> {
        let mut inside = self.heap.inside.lock();
        let layout = Layout::of(&self.tenant.key.placement, self.bytes(), mapper.granule_bytes()).ok()?;
        let stands = |start: u64, slot: &Slot| {
            let filled = !mapper.unfilled.contains_key(&slot.at().0);
            let lies = (slot.at().0 - start, slot.end().0 - start);
            filled && slot.current().is_some_and(|here| layout.allows(lies, here.device()))
        };
        let is_whole = |extent: &Extent| {
            let chain = mapper.chains.get(&extent.start);
            let as_new = |it: &Chain| {
                !it.is_kept() && it.rights.is_empty() && it.slots().iter().all(|slot| stands(it.at().0, slot))
            };
            chain.is_some_and(|it| it.top().0 == extent.end() && as_new(it))
        };
        let start = inside.extents.iter().find(|extent| extent.units == self.units && is_whole(extent))?.start;
        inside.extents.remove_range(start, self.units).then(|| self.heap.enter(&mut inside, start, self.units))?;
        Some(start)
    }
}
