//! Leases: what is about to be launched keeps its block in place although no GPU work names it yet.

use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::Tenant;
use crate::heap::holds;
use crate::mapper::Mapper;
use crate::pool::Pool;
use crate::request::{Block, StreamId};
use crate::unit::bytes_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stitchpool_driver::Address;

/// A token that keeps a block mapped: whoever has read its address and not launched yet takes one.
///
/// The block may be freed meanwhile; the free takes effect when its last lease and view are gone. While
/// it is held it is not suspended, moved or evicted, and no right on it is lowered. Dropped, the lease
/// says that nothing was launched but on the streams that it was told of. It keeps its pool alive.
///
/// ```
/// # use std::sync::Arc;
/// # use stitchpool_driver::host::{HostConfig, HostDriver};
/// # use stitchpool_driver::{DeviceId, RawStream};
/// # use stitchpool_pool::{Pool, Request, Settings};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::new(HostDriver::new(HostConfig::default())?, Settings::default())?;
/// let stream = pool.register(RawStream { device: DeviceId(0), value: 0 })?;
/// let block = pool.alloc(&Request::new(4 << 20, stream))?;
/// let lease = pool.lease(block.address)?;
/// pool.free(block.address)?; // another thread is done with it
/// // ... the work that was prepared is launched on `stream`, and then:
/// lease.end_on(stream).map_err(|refused| refused.0)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lease {
    engine: Arc<Engine>,
    heap: u32,
    units: u32,
    address: Address,
    /// The streams whose work uses the block by now.
    clocks: Vec<Arc<Clock>>,
    /// When the block was last used.
    used: Arc<AtomicU64>,
}

impl Pool {
    /// Takes a lease of the live block at `address`.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`], [`Error::Asleep`], or [`Error::Busy`].
    pub fn lease(&self, address: Address) -> Result<Lease> {
        self.hold(address, demand_awake)
    }

    /// Takes a lease of the block at `address`, if `demand` allows it.
    pub(crate) fn hold(
        &self,
        address: Address,
        demand: impl Fn(&Mapper, &Tenant, Block) -> Result<()>,
    ) -> Result<Lease> {
        let engine = &*self.engine;
        // What suspends and moves memory has this lock, so it sees the lease, or the lease sees it.
        let mapper = engine.mapper.lock();
        let heap = engine.heap_of(address)?;
        let mut inside = heap.inside.lock();
        let (Some(units), Some(tenant)) = (inside.units_at(address.0), inside.tenant.clone()) else {
            drop(inside);
            return Err(engine.unknown(address));
        };
        let block = Block::of(address.0, units);
        demand(&mapper, &tenant, block)?;
        inside.hold(address.0);
        let used = engine.note_use(&mapper, address);
        Ok(Lease { engine: self.engine.clone(), heap: heap.index, units, address, clocks: Vec::new(), used })
    }
}

impl Lease {
    /// The block's first address.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// The block's length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        bytes_of(self.units)
    }

    /// Notes that work on `stream` uses the block: what is queued there until the lease ends.
    ///
    /// # Errors
    /// [`Error::UnknownStream`], or [`Error::NoRights`].
    pub fn record_use(&mut self, stream: StreamId) -> Result<()> {
        let engine = &*self.engine;
        let clock = engine.registry.clock(stream.serial, stream.home)?;
        engine.may_use(engine.heap_of(self.address)?, self.address, &clock)?;
        holds::add(&mut self.clocks, &clock);
        Ok(())
    }

    /// Ends it: the work that it was taken for is queued on `stream` by now.
    ///
    /// # Errors
    /// As [`Lease::record_use`], with the lease back.
    pub fn end_on(mut self, stream: StreamId) -> std::result::Result<(), Box<(Error, Self)>> {
        match self.record_use(stream) {
            Ok(()) => Ok(()),
            Err(error) => Err(Box::new((error, self))),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let engine = &*self.engine;
        self.used.store(engine.next_use(), Ordering::Relaxed);
        let Some(heap) = engine.registry.heap(self.heap) else { return };
        let freed = heap.inside.lock().let_go(self.address.0, &self.clocks);
        if freed {
            engine.tick(heap);
        }
    }
}

/// Refuses a block that has no memory now, or that is being moved.
pub(crate) fn demand_awake(mapper: &Mapper, tenant: &Tenant, block: Block) -> Result<()> {
    mapper.arenas.get(tenant.key.arena)?.demand_awake()?;
    if mapper.is_asleep(block) {
        return Err(Error::Asleep { what: format!("the block at {}", block.address) });
    }
    Ok(())
}

impl Mapper {
    /// Whether a block has no memory somewhere, or memory without its content.
    pub(crate) fn is_asleep(&self, block: Block) -> bool {
        let (start, end) = (block.address, block.address + block.bytes);
        self.slots_over(start, end).any(|slot| slot.current().is_none()) || self.is_unfilled(start.0, end.0)
    }
}
