//! Proves the invariants that stand at the fields. Tests call it after each step; nothing else does.

use crate::heap::Heap;
use crate::heap::extents::Extent;
use crate::heap::inside::Inside;
use crate::mapper::Mapper;
use crate::mapper::backup::Content;
use crate::mapper::slot::Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks the mapper and all heaps against each other; no other thread uses the pool meanwhile.
pub(crate) fn check(mapper: &Mapper, heaps: &[&Heap]) -> Result<(), String> {
    for chain in mapper.chains.values() {
        chain.check()?;
    }
    let stale: BTreeSet<u64> = mapper.stale.iter().map(|at| at.0).collect();
    let slots = mapper.chains.values().flat_map(|chain| chain.slots());
    let standing: BTreeSet<u64> =
        slots.filter(|slot| matches!(slot, Slot::Stale { .. })).map(|slot| slot.at().0).collect();
    if stale != standing || stale.len() != mapper.stale.len() {
        return Err(format!("the list names {} stale slots, {} stand", mapper.stale.len(), standing.len()));
    }
    check_physical(mapper)?;
    mapper.captures.check()?;
    for heap in heaps {
        let inside = heap.inside.lock();
        inside.check().map_err(|broken| format!("heap {}: {broken}", heap.index))?;
        check_cover(mapper, heap.index, &inside).map_err(|broken| format!("heap {}: {broken}", heap.index))?;
        if heap.live_bytes() != inside.live_bytes() {
            return Err(format!("heap {}: published live bytes are stale", heap.index));
        }
        let slots = mapper.chains.values().filter(|chain| chain.heap() == heap.index).flat_map(|chain| chain.slots());
        let asleep_bytes: u64 = slots.filter(|slot| matches!(slot, Slot::Asleep { .. })).map(|slot| slot.bytes()).sum();
        if heap.asleep_bytes() != asleep_bytes {
            return Err(format!(
                "heap {}: {asleep_bytes} bytes sleep, {} are counted",
                heap.index,
                heap.asleep_bytes()
            ));
        }
    }
    Ok(())
}

/// Blocks, extents, pending blocks and freed ones that are held, of a heap, are disjoint and are exactly its
/// current and sleeping slots.
fn check_cover(mapper: &Mapper, heap: u32, inside: &Inside) -> Result<(), String> {
    let mut runs: Vec<Extent> = inside.blocks().chain(inside.extents.iter()).collect();
    runs.extend(inside.pending.iter().map(|block| block.extent()));
    runs.extend(inside.holds.freed());
    runs.sort_unstable_by_key(|run| run.start);
    if let Some(pair) = runs.windows(2).find(|pair| pair[0].end() > pair[1].start) {
        return Err(format!("{:?} and {:?} overlap", pair[0], pair[1]));
    }
    let joined = join(runs.iter().map(|run| (run.start, run.end())));
    let slots = mapper.chains.values().filter(|chain| chain.heap() == heap).flat_map(|chain| chain.slots());
    let used = slots.filter(|slot| matches!(slot, Slot::Current { .. } | Slot::Asleep { .. }));
    let standing = join(used.map(|slot| (slot.at().0, slot.end().0)));
    if joined != standing {
        return Err(format!("its bytes are {joined:x?}, its slots {standing:x?}"));
    }
    let foreign = runs.iter().find(|run| mapper.space.table().heap_of(run.start) != Some(heap));
    foreign.map_or(Ok(()), |run| Err(format!("{run:?} is another heap's by its address")))
}

/// A handle is current at one place at most; budgets count exactly the handles that stand or idle.
fn check_physical(mapper: &Mapper) -> Result<(), String> {
    let mut handles = BTreeMap::new();
    let mut current = BTreeSet::new();
    for slot in mapper.chains.values().flat_map(|chain| chain.slots()) {
        let handle = match slot {
            Slot::Current { mapping, .. } | Slot::Stale { mapping, .. } => mapping.handle(),
            Slot::Asleep { content: Content::Handle(handle), .. } => handle,
            _ => continue,
        };
        handles.insert(Arc::as_ptr(handle) as usize, (handle.device(), handle.bytes()));
        if matches!(slot, Slot::Current { .. }) && !current.insert(Arc::as_ptr(handle) as usize) {
            return Err(format!("the handle at {} is current at two places", slot.at()));
        }
    }
    let slots = mapper.chains.values().flat_map(|chain| chain.slots());
    for slot in slots.filter(|slot| matches!(slot, Slot::Viewed(_))) {
        if slot.mapping().is_none_or(|mapping| !current.contains(&(Arc::as_ptr(mapping.handle()) as usize))) {
            return Err(format!("the handle that is viewed at {} is current nowhere", slot.at()));
        }
    }
    for (device, budget) in &mapper.budgets {
        let standing: u64 = handles.values().filter(|(at, _)| at == device).map(|(_, bytes)| bytes).sum();
        let (idle, trays) = (mapper.stock.bytes(*device), mapper.tray_bytes(*device));
        if standing + idle + trays != budget.physical_bytes() {
            let counted = budget.physical_bytes();
            return Err(format!(
                "{device}: {standing} bytes stand, {idle} idle and {trays} hold backups, {counted} are counted"
            ));
        }
    }
    Ok(())
}

fn join(runs: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in runs {
        match joined.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => joined.push((start, end)),
        }
    }
    joined
}
