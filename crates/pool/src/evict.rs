//! Oversubscription: while memory is short, exclusive blocks of evictable arenas are put out by least recent
//! use, and come back when they are touched. It moves no bytes itself: that is a suspend and a resume.

use crate::arena::{ArenaId, Wakefulness};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::holdings::Holdings;
use crate::lease::Lease;
use crate::mapper::Mapper;
use crate::mapper::backup::Backup;
use crate::mapper::slot::Slot;
use crate::pool::Pool;
use crate::request::Block;
use crate::scope::Scope;
use crate::shortage::Shortage;
use crate::unit::bytes_of;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stitchpool_driver::{Address, DeviceId};

/// How often one request makes room and tries again, at most: other threads may take what was freed.
const ROUNDS_MAX: usize = 1024;

thread_local! {
    /// Whether this thread is putting a block out: what listeners ask for meanwhile evicts nothing, or they
    /// would be told, and ask, without end.
    static EVICTS: Cell<bool> = const { Cell::new(false) };
}

/// A block that may be put out.
#[derive(Debug)]
struct Evictable {
    /// When it was last used.
    used: u64,
    address: Address,
    /// How much of it lies on the devices concerned.
    bytes: u64,
    refuge: Backup,
}

/// For as long as it lives, its thread evicts nothing more.
struct Evicting;

impl Pool {
    /// From now on the exclusive blocks of an arena may be put out to `refuge` while memory is short, those
    /// first that were not used for longest; `None`: no more. Uses are the allocation, a
    /// [`touch`](Self::touch), and the begin and the end of a lease; of the GPU's work the pool sees
    /// nothing. So whoever uses such a block touches it first, and keeps the lease until its work is queued.
    ///
    /// Blocks that share handles, growable buffers, and what leases, views or pins hold, stay.
    ///
    /// # Errors
    /// [`Error::UnknownArena`]; [`Error::UnknownDevice`] for a peer; [`Error::Backup`] for
    /// [`Backup::Discard`].
    pub fn set_evictable(&self, arena: ArenaId, refuge: Option<Backup>) -> Result<()> {
        match refuge {
            Some(Backup::Discard) => {
                let why = "evicted blocks keep their content: name the host, a peer or a directory";
                return Err(Error::Backup(why.into()));
            }
            Some(Backup::Peer(peer)) => drop(self.engine.known_device(peer)?),
            Some(Backup::Host | Backup::Disk(_)) | None => {}
        }
        let mut mapper = self.engine.mapper.lock();
        let Mapper { arenas, refuges, .. } = &mut *mapper;
        arenas.get(arena)?;
        // Of those dissolved nothing need be known.
        refuges.retain(|&known, _| known != arena && arenas.get(known).is_ok());
        refuges.extend(refuge.map(|refuge| (arena, refuge)));
        Ok(())
    }

    /// Makes sure that the block at `address` has its memory, evicting others for it if need be, and keeps
    /// it in place until the lease is dropped. It counts as used now, and again when the lease ends.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Asleep`] where its whole arena is; [`Error::Capturing`] where it
    /// would have to be brought back; [`Error::UnknownAddress`], [`Error::Busy`], or the driver's. The block
    /// is then as it was.
    pub fn touch(&self, address: Address) -> Result<Lease> {
        let asleep = Cell::new(false);
        // Held already while it comes back, so that nobody evicts it in between.
        let lease = self.hold(address, |mapper, tenant, block| {
            asleep.set(mapper.is_asleep(block));
            mapper.arenas.get(tenant.key.arena)?.demand_awake()
        })?;
        if asleep.get() {
            self.resume(Scope::Block(address))?;
        }
        Ok(lease)
    }
}

impl Engine {
    /// Does something that takes memory; while it is short, evicts and tries again. With no lock held.
    pub(crate) fn with_room<T>(&self, act: impl Fn() -> Result<T>) -> Result<T> {
        let mut outcome = act();
        for _ in 0..ROUNDS_MAX {
            let Err(Error::OutOfMemory(shortage)) = &mut outcome else { break };
            if !self.make_room(shortage) {
                break;
            }
            outcome = act();
        }
        outcome
    }

    /// Evicts what is missing, at least one block as long as any is left. False: nothing was, and what the pool holds
    /// is still what was counted when memory was found short.
    fn make_room(&self, shortage: &mut Shortage) -> bool {
        if shortage.is_hopeless() {
            return false;
        }
        let Some(_evicting) = Evicting::begin() else { return false };
        let devices: Vec<DeviceId> = shortage.devices.iter().map(|holdings| holdings.device).collect();
        let mut out_bytes = 0;
        for evictable in self.evictables(&devices) {
            match self.evict(&evictable) {
                Ok(()) => out_bytes += evictable.bytes,
                Err(error) => {
                    tracing::debug!(%error, at = %evictable.address, "a block was not evicted");
                    shortage.eviction.get_or_insert_with(|| error.to_string());
                    if !is_of_one_block(&error) {
                        break;
                    }
                }
            }
            if out_bytes >= shortage.missing_bytes.max(1) {
                break;
            }
        }
        out_bytes > 0 || self.holds_other(&shortage.devices)
    }

    /// Whether what the pool holds is not what was counted any more.
    fn holds_other(&self, counted: &[Holdings]) -> bool {
        let now = self.holdings(&self.mapper.lock(), counted.iter().map(|before| before.device));
        // What others than the pool hold changes at any time.
        let own = |holdings: &Holdings| Holdings { device_free_bytes: None, ..*holdings };
        !now.iter().map(own).eq(counted.iter().map(own))
    }

    /// Puts a block out. Done, too, where another thread was faster.
    fn evict(&self, evictable: &Evictable) -> Result<()> {
        let scope = Scope::Block(evictable.address);
        let Some(mut ground) = self.close(scope, Wakefulness::Awake, "an eviction")? else { return Ok(()) };
        ground.evicts = true;
        let asleep = Some(Wakefulness::Asleep);
        self.with_notice(&[&ground], asleep, || self.put_to_sleep(&ground, &evictable.refuge)).map(drop)
    }

    /// What may be put out of these devices, used longest ago first.
    fn evictables(&self, devices: &[DeviceId]) -> Vec<Evictable> {
        let mapper = self.mapper.lock();
        let heaps = self.registry.heaps();
        let mut evictables: Vec<Evictable> = heaps.flat_map(|heap| evictables_of(&mapper, heap, devices)).collect();
        evictables.sort_unstable_by_key(|evictable| (evictable.used, evictable.address));
        evictables
    }

    /// The block at `address` is used now. Gives where that is noted.
    pub(crate) fn note_use(&self, mapper: &Mapper, address: Address) -> Arc<AtomicU64> {
        let used = mapper.chain_holding(address.0).map(|chain| chain.used.clone()).unwrap_or_default();
        used.store(self.next_use(), Ordering::Relaxed);
        used
    }

    /// The count of uses, with one more.
    pub(crate) fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Mapper {
    /// Where blocks of an arena go while memory is short.
    pub(crate) fn refuge_of(&self, arena: ArenaId) -> Option<&Backup> {
        let refuge = self.refuges.get(&arena)?;
        self.arenas.get(arena).is_ok_and(|arena| arena.wakefulness == Wakefulness::Awake).then_some(refuge)
    }
}

/// What may be put out of a heap.
fn evictables_of(mapper: &Mapper, heap: &Heap, devices: &[DeviceId]) -> Vec<Evictable> {
    let inside = heap.inside.lock();
    let tenant = inside.tenant.as_ref().filter(|tenant| tenant.key.exclusive && !mapper.serves_graph(&inside));
    let Some(refuge) = tenant.and_then(|tenant| mapper.refuge_of(tenant.key.arena)) else { return Vec::new() };
    let place = match refuge {
        Backup::Host => Some(DeviceId::HOST),
        Backup::Peer(peer) => Some(*peer),
        Backup::Disk(_) | Backup::Discard => None,
    };
    let evictable = |(address, bytes): (Address, u64)| {
        let end = address + bytes;
        let chain = mapper.chains.get(&address.0).filter(|chain| !chain.is_kept())?;
        let held = inside.held_in(address.0, end.0).is_some() || mapper.pins.touch(address.0, end.0);
        if held || mapper.is_asleep(Block { address, bytes }) {
            return None;
        }
        let mappings = || chain.slots().iter().filter_map(Slot::current);
        // Put from a place to the same one, it frees nothing.
        if mappings().any(|mapping| Some(mapping.device()) == place) {
            return None;
        }
        let concerned = mappings().filter(|mapping| devices.contains(&mapping.device()));
        let bytes = concerned.map(|mapping| mapping.bytes()).sum();
        let used = chain.used.load(Ordering::Relaxed);
        (bytes > 0).then(|| Evictable { used, address, bytes, refuge: refuge.clone() })
    };
    inside.blocks().map(|block| (Address(block.start), bytes_of(block.units))).filter_map(evictable).collect()
}

/// Whether another block may still be put out where this is said of one.
const fn is_of_one_block(error: &Error) -> bool {
    matches!(
        error,
        Error::Held { .. }
            | Error::InUse { .. }
            | Error::Vetoed { .. }
            | Error::Busy { .. }
            | Error::Asleep { .. }
            | Error::UnknownAddress { .. }
            | Error::Unreachable { .. }
    )
}

impl Evicting {
    /// `None`: this thread is evicting already.
    fn begin() -> Option<Self> {
        EVICTS.with(|evicts| (!evicts.replace(true)).then_some(Self))
    }
}

impl Drop for Evicting {
    fn drop(&mut self) {
        EVICTS.with(|evicts| evicts.set(false));
    }
}
