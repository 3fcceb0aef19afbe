//! What an operation on memory that stays at its address is about: all of a pool, an arena, a block or a
//! range. It moves nothing.

use crate::arena::{ArenaId, Wakefulness};
use crate::devices::distinct;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::mapper::Mapper;
use crate::mapper::chain::Chain;
use std::ops::Range;
use stitchpool_driver::{Address, DeviceId};

/// What an operation is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Every block of the pool.
    All,
    /// Every block of an arena.
    Arena(ArenaId),
    /// The block at this address, which has handles of its own. Of a growable buffer each handle is one.
    Block(Address),
    /// Parts of one exclusive block or growable buffer, whole handles.
    Range {
        /// Where it begins.
        address: Address,
        /// How long it is.
        bytes: u64,
    },
}

/// A scope as it stands in the pool.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// Indices of the heaps concerned.
    pub(crate) heaps: Vec<u32>,
    /// The arenas concerned as a whole; none where the scope is a range.
    pub(crate) arenas: Vec<ArenaId>,
    /// For each of these arenas what it was before the operation, and how much of it slept.
    pub(crate) before: Vec<(Wakefulness, u64)>,
    /// Slots outside it are not concerned.
    pub(crate) span: Range<u64>,
    /// What errors call it.
    pub(crate) title: String,
    /// Whether it is put out because memory is short.
    pub(crate) evicts: bool,
}

impl Engine {
    /// What a scope is made of now.
    pub(crate) fn ground(&self, mapper: &Mapper, scope: Scope) -> Result<Ground> {
        let arenas: Vec<ArenaId> = match scope {
            Scope::All => mapper.arenas.ids().collect(),
            Scope::Arena(arena) => vec![arena],
            Scope::Block(address) => {
                let heap = self.heap_of(address)?;
                let block = heap.inside.lock().block_at(address.0).filter(|block| block.start == address.0);
                let block = block.ok_or_else(|| self.unknown(address))?;
                return self.ground_of_range(mapper, address, block.bytes());
            }
            Scope::Range { address, bytes } => return self.ground_of_range(mapper, address, bytes),
        };
        let title = match arenas.as_slice() {
            [only] => mapper.arenas.get(*only)?.title(),
            _ => "the pool".into(),
        };
        for arena in &arenas {
            mapper.arenas.get(*arena)?.demand_still()?;
        }
        let belongs = |heap: &&Heap| {
            let inside = heap.inside.lock();
            inside.tenant.as_ref().is_some_and(|tenant| arenas.contains(&tenant.key.arena))
        };
        let heaps = self.registry.heaps().filter(belongs).map(|heap| heap.index).collect();
        Ok(Ground { heaps, arenas, before: Vec::new(), span: 0..u64::MAX, title, evicts: false })
    }

    fn ground_of_range(&self, mapper: &Mapper, address: Address, bytes: u64) -> Result<Ground> {
        let heap = self.heap_of(address)?;
        let out_of_range = || Error::OutOfRange { address, bytes, end: address };
        let end = address.checked_add(bytes).filter(|_| bytes > 0).ok_or_else(out_of_range)?;
        let is_exclusive = heap.inside.lock().tenant.as_ref().is_some_and(|tenant| tenant.key.exclusive);
        let chain = mapper.chain_holding(address.0).ok_or_else(|| self.unknown(address))?;
        let borders = [address, end].map(|at| is_border(chain, at, mapper.granule_bytes()));
        if !is_exclusive || borders != [true, true] {
            return Err(Error::Shared { address });
        }
        let title = format!("the block at {address}");
        let (heaps, arenas, before) = (vec![heap.index], Vec::new(), Vec::new());
        Ok(Ground { heaps, arenas, before, span: address.0..end.0, title, evicts: false })
    }

    /// The heaps of an arena.
    pub(crate) fn heaps_of(&self, arena: ArenaId) -> impl Iterator<Item = &Heap> {
        let belongs = move |heap: &&Heap| heap.inside.lock().tenant.as_ref().is_some_and(|it| it.key.arena == arena);
        self.registry.heaps().filter(belongs)
    }

    /// The heaps of a ground.
    pub(crate) fn heaps_on<'a>(&'a self, ground: &'a Ground) -> impl Iterator<Item = &'a Heap> {
        ground.heaps.iter().filter_map(|&index| self.registry.heap(index))
    }

    /// The GPUs that have rights on a ground, or on some of it.
    pub(crate) fn users_of(&self, mapper: &Mapper, ground: &Ground) -> Vec<DeviceId> {
        let mut users = self.grantees(mapper, &ground.heaps);
        // A view that is gone by now may have let others in: whoever has streams here is waited for.
        users.extend(mapper.clocks.values().map(|clock| clock.raw().device));
        distinct(users)
    }

    /// The GPUs that were given rights on memory of these heaps, or on some of it.
    pub(crate) fn grantees(&self, mapper: &Mapper, heaps: &[u32]) -> Vec<DeviceId> {
        let chains = mapper.chains.values().filter(|chain| heaps.contains(&chain.heap()));
        let mut users: Vec<DeviceId> = chains.flat_map(|chain| chain.rights.users()).collect();
        for heap in heaps.iter().filter_map(|&index| self.registry.heap(index)) {
            let inside = heap.inside.lock();
            users.extend(inside.tenant.iter().flat_map(|tenant| tenant.grants.iter()).map(|grant| grant.device));
        }
        users.retain(|device| !device.is_host());
        distinct(users)
    }
}

/// Whether an operation may begin or end there: at the border of a handle, or where a growable buffer has none.
fn is_border(chain: &Chain, at: Address, granule_bytes: u64) -> bool {
    let vacant = chain.is_kept() && at <= chain.end() && at.is_aligned(granule_bytes);
    match chain.slot_holding(at) {
        Some(slot) => slot.at() == at || (vacant && slot.is_nobodys()),
        None => at == chain.top() || vacant,
    }
}
