//! Peers, where a pool opens its memory to every device that can reach it: a device is one of them from its
//! first stream on. Rights for one that nobody uses would double what each mapping costs.

use crate::engine::Engine;
use crate::error::Result;
use crate::mapper::Mapper;
use crate::rights::spans_in;
use stitchpool_driver::{Address, DeviceId, Grant, Rights};

impl Engine {
    /// A stream is about to be registered on a device. Where all is open to peers, and this is its first, what the
    /// device can reach is opened to it; on a refusal nothing is.
    pub(crate) fn put_to_work(&self, mapper: &mut Mapper, device: DeviceId) -> Result<()> {
        if !mapper.at_work.insert(device) || !self.settings.open_to_peers {
            return Ok(());
        }
        let opened = self.open_to(mapper, device);
        if opened.is_err() {
            mapper.at_work.remove(&device);
        }
        opened
    }

    /// Gives a newcomer what its peers have, where nothing else was asked for.
    fn open_to(&self, mapper: &mut Mapper, newcomer: DeviceId) -> Result<()> {
        let grants = [Grant { device: newcomer, rights: Rights::ReadWrite }];
        let (mut runs, mut given) = (Vec::new(), Vec::new());
        for heap in self.registry.heaps() {
            let tenant = heap.inside.lock().tenant.clone();
            // What is left of an arena that was dissolved serves others, with their rights.
            let Some(tenant) = tenant.filter(|tenant| mapper.arenas.get(tenant.key.arena).is_ok()) else { continue };
            let after = self.grants(&tenant.key, tenant.clock.raw().device, mapper)?;
            if after == tenant.grants {
                continue;
            }
            let is_given = |at: Address| {
                let chain = mapper.chain_holding(at.0);
                chain.is_some_and(|chain| chain.grants_at(at, &after).contains(&grants[0]))
            };
            runs.extend(mapper.runs(&spans_in(mapper, heap), &grants, is_given));
            given.push((heap, after));
        }
        mapper.open_runs(&runs, &grants)?;
        for (heap, after) in given {
            if let Some(tenant) = &mut heap.inside.lock().tenant {
                tenant.grants = after;
            }
        }
        Ok(())
    }
}
