//! Views: the memory behind parts of live blocks under a second, contiguous range of addresses.

use crate::clock::{Clock, Fence};
use crate::error::{Error, Result};
use crate::grip::Grip;
use crate::heap::holds;
use crate::mapper::Mapper;
use crate::mapper::overrides::{over, positive};
use crate::mapper::slot::Slot;
use crate::mapper::space::VIEWS;
use crate::pool::Pool;
use crate::request::{Block, StreamId};
use parking_lot::Mutex;
use std::sync::Arc;
use stitchpool_chunks::{PhysicalHandle, Segment, map_run};
use stitchpool_driver::{Address, Grant};

/// A part of a live block: whole handles. A block that was asked for exclusive begins and ends with one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// Where it begins.
    pub address: Address,
    /// Its length in bytes.
    pub bytes: u64,
}

impl From<Block> for Part {
    fn from(block: Block) -> Self {
        Self { address: block.address, bytes: block.bytes }
    }
}

/// A contiguous range over parts of live blocks, which stay where they are: one memory, two addresses.
///
/// It holds its blocks as leases do, so a block that is freed meanwhile goes when its last view is gone.
/// Nothing orders work through the view after work through the block but what orders the streams; within
/// one kernel the two addresses are not coherent. It has no stream of its own: every stream that uses it
/// is told of ([`View::record_use`]), and its mappings go once these are past. It keeps its pool alive.
///
/// ```
/// # use std::sync::Arc;
/// # use stitchpool_driver::host::{HostConfig, HostDriver};
/// # use stitchpool_driver::{DeviceId, Grant, RawStream, Rights};
/// # use stitchpool_pool::{Pool, Request, Settings};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::new(HostDriver::new(HostConfig::default())?, Settings::default())?;
/// let stream = pool.register(RawStream { device: DeviceId(0), value: 0 })?;
/// let prefix = pool.alloc(&Request::new(4 << 20, stream).exclusive())?;
/// let tail = pool.alloc(&Request::new(2 << 20, stream).exclusive())?;
/// let readers = [Grant { device: DeviceId(0), rights: Rights::Read }];
/// let view = pool.view(&[prefix.into(), tail.into()], &readers)?;
/// assert_eq!(view.bytes(), 6 << 20);
/// view.record_use(stream)?;
/// pool.free(prefix.address)?; // takes effect when the view is gone
/// # drop(view);
/// # pool.free(tail.address)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct View {
    pool: Pool,
    at: Address,
    bytes: u64,
    grants: Arc<[Grant]>,
    /// The blocks behind it, by heap and first address; one entry a part.
    held: Vec<(u32, u64)>,
    /// The streams whose work uses it.
    clocks: Mutex<Vec<Arc<Clock>>>,
}

impl Pool {
    /// Maps the memory behind `parts`, one after the other, at addresses of its own, and opens it to
    /// `grants` and nobody else; where a device is named twice, the last counts.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`] for what is no part of a live block (a view's own address among that),
    /// [`Error::OutOfRange`], [`Error::NotWhole`], [`Error::Asleep`], [`Error::Busy`],
    /// [`Error::Unreachable`], [`Error::InvalidSize`] for no parts, or the driver's. Nothing has changed.
    pub fn view(&self, parts: &[Part], grants: &[Grant]) -> Result<View> {
        let engine = &*self.engine;
        let grants = positive(&over(&[], grants));
        let mut mapper = engine.mapper.lock();
        let mut grip = Grip::new(engine);
        let mut handles = Vec::new();
        for &Part { address, bytes } in parts {
            let end = Address(grip.hold(&mapper, address)?.end());
            if bytes == 0 || address.checked_add(bytes).is_none_or(|asked| asked > end) {
                return Err(Error::OutOfRange { address, bytes, end });
            }
            handles.extend(handles_of(&mapper, address, bytes)?);
        }
        let bytes = handles.iter().map(|handle| handle.bytes()).sum();
        if handles.is_empty() {
            return Err(Error::InvalidSize { bytes: 0, limit_bytes: u64::MAX });
        }
        for handle in &handles {
            engine.demand_reach(&grants, handle.device())?;
        }
        let at = mapper.stand(handles, &grants)?;
        Ok(View { pool: self.clone(), at, bytes, grants, held: grip.keep(), clocks: Mutex::default() })
    }
}

impl View {
    /// Its first address.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.at
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Every piece of memory behind it.
    #[must_use]
    pub fn segments(&self) -> Vec<Segment> {
        let mapper = self.pool.engine.mapper.lock();
        let slots = mapper.slots_over(self.at, self.at + self.bytes);
        slots.filter_map(Slot::mapping).filter_map(|mapping| Segment::of(mapping, self.at, self.bytes)).collect()
    }

    /// Notes that work on `stream` uses it: what is queued there until it is dropped.
    ///
    /// # Errors
    /// [`Error::UnknownStream`], or [`Error::NoRights`].
    pub fn record_use(&self, stream: StreamId) -> Result<()> {
        let clock = self.pool.engine.registry.clock(stream.serial, stream.home)?;
        let device = clock.raw().device;
        if self.grants.iter().all(|grant| grant.device != device) {
            return Err(Error::NoRights { device, address: self.at });
        }
        holds::add(&mut self.clocks.lock(), &clock);
        Ok(())
    }
}

impl Drop for View {
    /// Its mappings are stale from now on, and taken down once its streams are past; its blocks wait for
    /// the same, if they are freed.
    fn drop(&mut self) {
        let engine = &*self.pool.engine;
        let clocks = std::mem::take(self.clocks.get_mut());
        let mut mapper = engine.mapper.lock();
        mapper.leave(self.at, &clocks);
        for &(heap, start) in &self.held {
            if let Some(heap) = engine.registry.heap(heap) {
                heap.inside.lock().let_go(start, &clocks);
            }
        }
        engine.set_watched(&mapper);
    }
}

/// The handles behind a part of a block that is held, which they must fill to the byte.
fn handles_of(mapper: &Mapper, address: Address, bytes: u64) -> Result<Vec<Arc<PhysicalHandle>>> {
    demand_whole(mapper, address, bytes)?;
    let slots = mapper.slots_over(address, address + bytes);
    Ok(slots.filter_map(Slot::current).map(|mapping| mapping.handle().clone()).collect())
}

/// Refuses a part whose ends lie inside handles.
pub(crate) fn demand_whole(mapper: &Mapper, address: Address, bytes: u64) -> Result<()> {
    let end = address + bytes;
    let mut handles = mapper.slots_over(address, end).filter(|slot| !slot.is_nobodys());
    let cut = handles.find(|slot| slot.at() < address || slot.end() > end);
    let bounds = cut.map(|slot| (slot.at(), slot.end()));
    bounds.map_or(Ok(()), |(start, end)| Err(Error::NotWhole { address, bytes, start, end }))
}

impl Mapper {
    /// Maps handles at new addresses that are a view's.
    fn stand(&mut self, handles: Vec<Arc<PhysicalHandle>>, grants: &[Grant]) -> Result<Address> {
        let bytes: u64 = handles.iter().map(|handle| handle.bytes()).sum();
        let (chain, vacancy) = self.open_room(bytes, VIEWS, false)?;
        match map_run(vacancy, handles, grants) {
            Ok((run, rest)) => {
                if let Some(chain) = self.chains.get_mut(&chain) {
                    chain.fill(chain.at().0, run.into_iter().map(Slot::Viewed).collect(), rest);
                }
                Ok(Address(chain))
            }
            Err(failure) => {
                self.put_back_room(chain, chain, failure.vacancies);
                Err(failure.error.into())
            }
        }
    }

    /// The view at `at` is gone; what these streams have queued so far may still use its addresses.
    fn leave(&mut self, at: Address, clocks: &[Arc<Clock>]) {
        let Some(chain) = self.chains.get(&at.0) else { return };
        let fences: Vec<Fence> =
            clocks.iter().map(|clock| Fence { epoch: clock.stamp(), clock: clock.clone() }).collect();
        let viewed = chain.slots().iter().filter(|slot| matches!(slot, Slot::Viewed(_)));
        let viewed: Vec<Address> = viewed.map(Slot::at).collect();
        viewed.into_iter().for_each(|at| self.make_stale(at, fences.clone()));
        self.retire_some(RETIRED_AT_ONCE);
    }
}

/// So many stale mappings go with a view, if their fences are past; ticks take the rest.
const RETIRED_AT_ONCE: usize = 64;
