//! Rights at run time: what devices may do with an arena, a block or a part of it, from now on. The
//! memory stays where it is.

use crate::arena::ArenaId;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::growable::whole_granules;
use crate::heap::Heap;
use crate::heap::inside::Inside;
use crate::lease::demand_awake;
use crate::mapper::Mapper;
use crate::mapper::chain::Chain;
use crate::mapper::overrides::{over, positive};
use crate::mapper::slot::Slot;
use crate::miss::layout::Layout;
use crate::pool::Pool;
use crate::request::Block;
use crate::scope::Scope;
use crate::view::demand_whole;
use std::collections::BTreeSet;
use std::sync::Arc;
use stitchpool_chunks::{open, synchronize};
use stitchpool_driver::{Address, DeviceId, Grant, Rights};

impl Pool {
    /// Sets what each device of `grants` may do from now on; devices that are not named keep their rights,
    /// and where a device is named twice the last counts. Rights outlive the memory: whatever is mapped
    /// there later is opened in the same way. So a range of a growable buffer need not be backed. Views keep
    /// the rights that they were made with.
    ///
    /// Where a right is lowered, the CPU waits first until all that this process has queued on that device
    /// is done; from the call to its return the caller launches nothing on the memory, and captures no
    /// stream that the pool does not know.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use stitchpool_driver::host::{HostConfig, HostDriver};
    /// # use stitchpool_driver::{DeviceId, Grant, RawStream, Rights};
    /// # use stitchpool_pool::{Pool, Request, Scope, Settings};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = Pool::new(HostDriver::new(HostConfig::default())?, Settings::default())?;
    /// let stream = pool.register(RawStream { device: DeviceId(0), value: 0 })?;
    /// let weights = pool.alloc(&Request::new(4 << 20, stream).exclusive())?;
    /// // ... they are loaded, and shall not change any more:
    /// let read_only = [Grant { device: DeviceId(0), rights: Rights::Read }];
    /// pool.set_rights(Scope::Block(weights.address), &read_only)?;
    /// # pool.free(weights.address)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownArena`], [`Error::UnknownAddress`], [`Error::OutOfRange`], [`Error::Shared`] for a block
    /// that was not asked for exclusive, [`Error::NotWhole`], [`Error::Asleep`], [`Error::Busy`],
    /// [`Error::Unreachable`] for a device that cannot reach all of it; where rights are lowered
    /// [`Error::Held`] and [`Error::Capturing`]; or the driver's. Nothing has changed then, unless the driver
    /// refuses the way back too: what it left differently is known, and is set by the next call.
    pub fn set_rights(&self, of: Scope, grants: &[Grant]) -> Result<()> {
        let engine = &*self.engine;
        let grants = over(&[], grants);
        let mut mapper = engine.mapper.lock();
        let spans = engine.spans_of(&mapper, of)?;
        let runs = mapper.runs(&spans, &grants, |_| true);
        let owners = runs.iter().flat_map(|run| run.owners.iter().copied());
        let places = engine.places_of(&mapper, of, &spans)?;
        for owner in owners.chain(places).collect::<BTreeSet<DeviceId>>() {
            engine.demand_reach(&grants, owner)?;
        }
        engine.quiet(&mut mapper, &runs, &grants)?;
        mapper.open_runs(&runs, &grants)?;
        engine.book(&mut mapper, of, &spans, &grants)
    }
}

/// Addresses of one chain that rights are set on.
#[derive(Debug)]
pub(crate) struct Span {
    chain: u64,
    start: Address,
    end: Address,
    /// What its heap gives.
    given: Arc<[Grant]>,
}

/// Neighbouring mappings on which the named devices have had the same rights.
#[derive(Debug)]
pub(crate) struct Run {
    chain: u64,
    heap: u32,
    start: Address,
    end: Address,
    owners: BTreeSet<DeviceId>,
    /// What the named devices may do until now.
    before: Vec<Grant>,
}

impl Run {
    /// The devices that lose something.
    fn lowered(&self, grants: &[Grant]) -> impl Iterator<Item = DeviceId> {
        let pairs = self.before.iter().zip(grants);
        pairs.filter(|(before, after)| after.rights < before.rights).map(|(before, _)| before.device)
    }
}

impl Engine {
    fn spans_of(&self, mapper: &Mapper, of: Scope) -> Result<Vec<Span>> {
        match of {
            Scope::All | Scope::Arena(_) => {
                for id in arenas_of(mapper, of) {
                    mapper.arenas.get(id)?.demand_still()?;
                }
                let heaps = arenas_of(mapper, of).into_iter().flat_map(|id| self.heaps_of(id));
                Ok(heaps.flat_map(|heap| spans_in(mapper, heap)).collect())
            }
            Scope::Block(address) => self.span_of(mapper, address, None).map(|span| vec![span]),
            Scope::Range { address, bytes } => {
                match mapper.chain_holding(address.0).filter(|it| it.is_kept_at(address)) {
                    Some(chain) => self.span_of_buffer(mapper, chain, (address, bytes)).map(|span| vec![span]),
                    None => self.span_of(mapper, address, Some(bytes)).map(|span| vec![span]),
                }
            }
        }
    }

    /// Where memory of an arena, or of a part of a growable buffer, may lie, now or later. Of a block it is known
    /// where it lies.
    fn places_of(&self, mapper: &Mapper, of: Scope, spans: &[Span]) -> Result<Vec<DeviceId>> {
        let tenant = |heap: &Heap| heap.inside.lock().tenant.clone();
        let arenas = arenas_of(mapper, of);
        let buffers = spans.iter().filter_map(|span| Some((span, mapper.chains.get(&span.chain)?)));
        let buffers = buffers.filter(|(_, chain)| chain.is_kept());
        if !arenas.is_empty() {
            let tenants = arenas.into_iter().flat_map(|id| self.heaps_of(id)).filter_map(tenant);
            let placed = tenants.flat_map(|tenant| tenant.key.placement.devices());
            return Ok(placed.chain(buffers.flat_map(|(_, chain)| chain.places.asked().copied())).collect());
        }
        let mut places = Vec::new();
        for (span, chain) in buffers {
            let Some(tenant) = self.registry.heap(chain.heap()).and_then(tenant) else { continue };
            let part = (span.start.bytes_from(chain.at()), span.end.bytes_from(chain.at()));
            let layout = Layout::of_buffer(chain, &tenant.key.placement, part, mapper.granule_bytes())?;
            places.extend(layout.devices(part));
        }
        Ok(places)
    }

    /// The live, exclusive block at `address`, or `bytes` from there on.
    fn span_of(&self, mapper: &Mapper, address: Address, bytes: Option<u64>) -> Result<Span> {
        let heap = self.heap_of(address)?;
        let inside = heap.inside.lock();
        let extent = inside.block_at(address.0).filter(|extent| bytes.is_some() || extent.start == address.0);
        let (Some(extent), Some(tenant)) = (extent, inside.tenant.clone()) else {
            drop(inside);
            return Err(self.unknown(address));
        };
        let block = Block { address: Address(extent.start), bytes: extent.bytes() };
        let end = block.address + block.bytes;
        let bytes = bytes.unwrap_or(block.bytes);
        if bytes == 0 || address.checked_add(bytes).is_none_or(|asked| asked > end) {
            return Err(Error::OutOfRange { address, bytes, end });
        }
        if !tenant.key.exclusive {
            return Err(Error::Shared { address: block.address });
        }
        demand_awake(mapper, &tenant, block)?;
        demand_whole(mapper, address, bytes)?;
        let chain = mapper.chain_holding(address.0).ok_or(Error::Shared { address: block.address })?;
        Ok(Span { chain: chain.at().0, start: address, end: address + bytes, given: tenant.grants })
    }

    /// A range of a growable buffer, backed or not.
    fn span_of_buffer(&self, mapper: &Mapper, chain: &Chain, (start, bytes): (Address, u64)) -> Result<Span> {
        let end = start.checked_add(bytes).filter(|end| bytes > 0 && chain.reaches(end.0));
        let end = end.ok_or(Error::OutOfRange { address: start, bytes, end: chain.end() })?;
        whole_granules("offset", start.bytes_from(chain.at()), mapper.granule_bytes())?;
        whole_granules("part", bytes, mapper.granule_bytes())?;
        let heap = self.heap_of(start)?;
        let tenant = heap.inside.lock().tenant.clone().ok_or_else(|| self.unknown(start))?;
        mapper.arenas.get(tenant.key.arena)?.demand_awake()?;
        demand_whole(mapper, start, bytes)?;
        let sleeps = |inside: &Inside| {
            let mut slots = mapper.slots_over(start, end).map(|slot| slot.at().0);
            slots.any(|at| inside.has_block(at) && mapper.is_asleep_at(at))
        };
        if sleeps(&heap.inside.lock()) {
            return Err(Error::Asleep { what: format!("a part of the growable buffer at {}", chain.at()) });
        }
        Ok(Span { chain: chain.at().0, start, end, given: tenant.grants })
    }

    /// Where rights are lowered: refuses held blocks and open captures, then waits for the devices' work.
    fn quiet(&self, mapper: &mut Mapper, runs: &[Run], grants: &[Grant]) -> Result<()> {
        let mut devices = BTreeSet::new();
        for run in runs {
            let lowered: Vec<DeviceId> = run.lowered(grants).collect();
            let heap = self.registry.heap(run.heap).filter(|_| !lowered.is_empty());
            devices.extend(lowered);
            let held = heap.and_then(|heap| heap.inside.lock().held_in(run.start.0, run.end.0));
            if let Some((address, holders)) = held {
                return Err(Error::Held { address, holders });
            }
        }
        if devices.is_empty() {
            return Ok(());
        }
        self.refuse_captures(mapper, "lowering rights")?;
        devices.into_iter().try_for_each(|device| synchronize(&self.origin, device)).map_err(Error::from)
    }

    /// Writes down what holds from now on.
    fn book(&self, mapper: &mut Mapper, of: Scope, spans: &[Span], grants: &[Grant]) -> Result<()> {
        for id in arenas_of(mapper, of) {
            let arena = mapper.arenas.get_mut(id)?;
            arena.grants = over(&arena.grants, grants);
            for heap in self.heaps_of(id) {
                if let Some(tenant) = &mut heap.inside.lock().tenant {
                    tenant.grants = positive(&over(&tenant.grants, grants));
                }
            }
        }
        for span in spans {
            let Some(chain) = mapper.chains.get_mut(&span.chain) else { continue };
            match of {
                Scope::All | Scope::Arena(_) => chain.rights.forget(grants),
                // A growable buffer's chain has other blocks too.
                Scope::Block(_) if !chain.is_kept() => chain.rights.set_whole(grants),
                Scope::Block(_) | Scope::Range { .. } => chain.rights.set(span.start.0..span.end.0, grants),
            }
        }
        Ok(())
    }
}

/// The arenas that a scope names as a whole.
fn arenas_of(mapper: &Mapper, of: Scope) -> Vec<ArenaId> {
    match of {
        Scope::All => mapper.arenas.ids().collect(),
        Scope::Arena(id) => vec![id],
        Scope::Block(_) | Scope::Range { .. } => Vec::new(),
    }
}

/// All chains of a heap.
pub(crate) fn spans_in(mapper: &Mapper, heap: &Heap) -> Vec<Span> {
    let Some(tenant) = heap.inside.lock().tenant.clone() else { return Vec::new() };
    let chains = mapper.chains.values().filter(|chain| chain.heap() == heap.index);
    let span =
        |chain: &Chain| Span { chain: chain.at().0, start: chain.at(), end: chain.top(), given: tenant.grants.clone() };
    chains.map(span).collect()
}

impl Mapper {
    /// The runs of the spans on which any of the grants is new, of the mappings that are `wanted`.
    pub(crate) fn runs(&self, spans: &[Span], grants: &[Grant], wanted: impl Fn(Address) -> bool) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for span in spans {
            let Some(chain) = self.chains.get(&span.chain) else { continue };
            for mapping in self.slots_over(span.start, span.end).filter_map(Slot::current).filter(|it| wanted(it.at()))
            {
                let before = rights_before(&chain.grants_at(mapping.at(), &span.given), grants);
                match runs.last_mut() {
                    Some(run) if run.end == mapping.at() && run.before == before => {
                        run.end = mapping.end();
                        run.owners.insert(mapping.device());
                    }
                    _ => runs.push(Run {
                        chain: span.chain,
                        heap: chain.heap(),
                        start: mapping.at(),
                        end: mapping.end(),
                        owners: BTreeSet::from([mapping.device()]),
                        before,
                    }),
                }
            }
        }
        runs.retain(|run| run.before != grants);
        runs
    }

    /// Opens all runs, or none.
    pub(crate) fn open_runs(&mut self, runs: &[Run], grants: &[Grant]) -> Result<()> {
        for (done, run) in runs.iter().enumerate() {
            if let Err(error) = self.open_run(run, &differing(grants, &run.before)) {
                runs[..done].iter().for_each(|run| self.close_run(run, grants));
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn open_run(&self, run: &Run, grants: &[Grant]) -> std::result::Result<(), stitchpool_driver::Error> {
        open(self.slots_over(run.start, run.end).filter_map(Slot::current), grants)
    }

    /// Gives a run its old rights. Where the driver refuses that twice, the new ones are written down.
    fn close_run(&mut self, run: &Run, grants: &[Grant]) {
        let before = differing(&run.before, grants);
        let closed = self.open_run(run, &before).or_else(|_| self.open_run(run, &before));
        if let Err(error) = closed {
            tracing::warn!(%error, at = %run.start, "rights could not be set back");
            if let Some(chain) = self.chains.get_mut(&run.chain) {
                chain.rights.set(run.start.0..run.end.0, grants);
            }
        }
    }
}

/// Those of `grants` that differ from `others`, which name the same devices: a device that cannot reach the
/// memory has no rights there, and the driver takes none from it.
fn differing(grants: &[Grant], others: &[Grant]) -> Vec<Grant> {
    grants.iter().zip(others).filter(|(grant, other)| grant != other).map(|(grant, _)| *grant).collect()
}

/// What the devices of `grants` may do where these are `known`.
fn rights_before(known: &[Grant], grants: &[Grant]) -> Vec<Grant> {
    let none = grants.iter().map(|grant| Grant { device: grant.device, rights: Rights::None });
    let none: Vec<Grant> = none.collect();
    over(&none, known).into_iter().filter(|grant| grants.iter().any(|named| named.device == grant.device)).collect()
}
