//! Blocks with handles of their own: each in a chain of its own, of which no other block ever has a part.

use crate::extents::Extent;
use crate::job::Job;
use crate::mapper::Mapper;

impl Job<'_> {
    /// Takes the chain of a freed block as it stands, if all of it is free and it has exactly the length:
    /// no driver call. What was freed on the own stream may be used there at once.
    pub(crate) fn take_chain(&self, mapper: &Mapper) -> Option<u64> {
        let mut core = self.heap.core.lock();
        let is_whole = |extent: &Extent| {
            let chain = mapper.chains.get(&extent.start);
            chain.is_some_and(|chain| !chain.kept && chain.top().0 == extent.end() && chain.is_awake())
        };
        let start = core.extents.iter().find(|extent| extent.units == self.units && is_whole(extent))?.start;
        core.extents.remove_range(start, self.units).then(|| self.heap.add_live(&mut core, start, self.units))?;
        Some(start)
    }
}
