//! Growable buffers: addresses for a maximum, with memory behind those parts that are asked for. It never
//! copies and never moves; what is backed is live blocks of the buffer's heap, one a handle.

use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::inside::Inside;
use crate::mapper::Mapper;
use crate::mapper::chain::Gap;
use crate::miss::job::Job;
use crate::miss::portion::Portion;
use crate::pool::Pool;
use crate::request::{Request, StreamId};
use crate::unit::{UNIT_BYTES, bytes_of, units_of};
use std::ops::Range;
use stitchpool_chunks::Segment;
use stitchpool_driver::Address;

/// A buffer of fixed address that has memory where it was asked to have some: a cache that grows, a part of
/// which can be given back. Its content is undefined where it was newly backed.
///
/// Offsets and lengths of what is backed and given back are whole granules; a handle is given back whole,
/// and none crosses a multiple of the buffer's step. Everything is in the order of the stream it was made
/// for, and so is its end: what is queued there so far may still use what was given back.
///
/// In the pool's figures each handle of it is a live block.
#[derive(Debug)]
pub struct Growable {
    pool: Pool,
    stream: StreamId,
    heap: u32,
    /// All of it, as the portion of a job.
    whole: Portion,
}

impl Pool {
    /// Reserves addresses for `max_bytes`, rounded up to granules, and backs the first `request.bytes` of
    /// them, which may be 0. Handles are as large as the pool's rule for a block of `max_bytes` makes them.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use stitchpool_driver::host::{HostConfig, HostDriver};
    /// # use stitchpool_driver::{DeviceId, RawStream};
    /// # use stitchpool_pool::{Pool, Request, Settings};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = Pool::new(HostDriver::new(HostConfig::default())?, Settings::default())?;
    /// # let stream = pool.register(RawStream { device: DeviceId(0), value: 0 })?;
    /// let cache = pool.growable(&Request::new(0, stream), 64 << 20)?;
    /// let address = cache.address();
    /// cache.grow_to(8 << 20)?;
    /// cache.back(32 << 20, 4 << 20)?;
    /// cache.give_back(4 << 20, 4 << 20)?;
    /// assert_eq!(cache.backed(), [0..4 << 20, 32 << 20..36 << 20]);
    /// assert_eq!(cache.address(), address);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Pool::alloc`]; [`Error::BeyondMax`] if `request.bytes` is more than `max_bytes`.
    pub fn growable(&self, request: &Request, max_bytes: u64) -> Result<Growable> {
        let handle_bytes_max = self.engine.settings.handle_bytes_max;
        let step_bytes = crate::miss::grain::handle_bytes(self.engine.granule_bytes(), 0, max_bytes, handle_bytes_max);
        self.growable_in_steps(request, max_bytes, step_bytes)
    }

    /// The same with handles of `step_bytes`, whole granules (0: one), or smaller ones of which none crosses a
    /// multiple of it: so multiples of it can always be given back.
    ///
    /// # Errors
    /// As [`Pool::growable`]; `Unaligned` for a step that is no whole number of granules.
    pub fn growable_in_steps(&self, request: &Request, max_bytes: u64, step_bytes: u64) -> Result<Growable> {
        let engine = &*self.engine;
        let granule_bytes = engine.granule_bytes();
        whole_granules("step", step_bytes, granule_bytes)?;
        let step_bytes = step_bytes.max(granule_bytes);
        let (heap, units) = engine.resolve(&Request { bytes: max_bytes, exclusive: true, ..request.clone() })?;
        let max_bytes = bytes_of(units);
        if request.bytes > max_bytes {
            return Err(Error::BeyondMax { offset_bytes: 0, bytes: request.bytes, max_bytes });
        }
        let mut mapper = engine.mapper.lock();
        if !heap.inside.lock().serves(request.stream.serial) {
            return Err(mapper.refusal(heap, request.stream.serial));
        }
        let at = mapper.open_chain(max_bytes, heap.index, false)?;
        if let Some(chain) = mapper.chains.get_mut(&at) {
            chain.keep(max_bytes, request.stream.serial);
        }
        drop(mapper);
        let whole = Portion { chain: at, start: at, end: at + max_bytes, step_bytes, max_bytes };
        let growable = Growable { pool: self.clone(), stream: request.stream, heap: heap.index, whole };
        growable.grow_to(request.bytes)?;
        Ok(growable)
    }
}

impl Growable {
    /// Its first address, which never changes.
    #[must_use]
    pub const fn address(&self) -> Address {
        Address(self.whole.start)
    }

    /// How long it can become, in bytes.
    #[must_use]
    pub const fn max_bytes(&self) -> u64 {
        self.whole.max_bytes
    }

    /// No handle of it crosses a multiple of so many bytes.
    #[must_use]
    pub const fn step_bytes(&self) -> u64 {
        self.whole.step_bytes
    }

    /// Backs the first `bytes` of it, rounded up to granules; what is backed already stays as it is, and so
    /// does what lies behind.
    ///
    /// # Errors
    /// As [`back`](Self::back).
    pub fn grow_to(&self, bytes: u64) -> Result<()> {
        let granule_bytes = self.pool.engine.granule_bytes();
        let rounded_bytes = bytes.checked_next_multiple_of(granule_bytes).unwrap_or(bytes - bytes % granule_bytes);
        self.back(0, rounded_bytes)
    }

    /// Backs `bytes` from `offset_bytes` on: all of it, or nothing on an error. What is backed already stays
    /// as it is. What was given back and still has its memory is taken back without a driver call, handles
    /// that reach beyond the portion as a whole. New memory lies where the request has placed it, or where the
    /// part was [sent](Pool::migrate) since; what was given back and lies elsewhere goes. For that, and where memory
    /// was taken meanwhile for something else, while work that used it still runs, the CPU waits for that work.
    ///
    /// # Errors
    /// [`Error::BeyondMax`]; `Unaligned` for what is no whole granules; [`Error::Asleep`],
    /// [`Error::OutOfMemory`], [`Error::Held`] where a lease or view keeps what was given back,
    /// [`Error::Capturing`] where its stream is being captured and it is in no arena that has a name,
    /// [`Error::UnknownStream`] if its stream was retired, [`Error::Lost`], or the driver's, `Timeout` among them.
    pub fn back(&self, offset_bytes: u64, bytes: u64) -> Result<()> {
        let portion = self.granules(offset_bytes, bytes)?;
        let engine = &*self.pool.engine;
        let heap = self.heap()?;
        let lacking_bytes = {
            let mapper = engine.mapper.lock();
            portion.lack(&mapper, &heap.inside.lock())?.bytes()
        };
        if lacking_bytes == 0 {
            return Ok(());
        }
        let serial = self.stream.serial;
        let mut inside = heap.inside.lock();
        let tenant = inside.tenant.clone().filter(|_| inside.belongs_to(serial));
        inside.misses += 1;
        drop(inside);
        let tenant = tenant.ok_or(Error::UnknownStream { serial })?;
        if engine.settings.ask_capture {
            engine.follow_capture(&tenant.clock);
        }
        let plain = || engine.job(heap, tenant.clone(), units_of(lacking_bytes), UNIT_BYTES);
        self.pool.serve(|| Job { portion: Some(portion), ..plain() }).map(drop)
    }

    /// Gives back what is backed of `bytes` from `offset_bytes` on, in the order of the buffer's stream, and
    /// says how many bytes that were. They serve other requests as all free memory does, and go back to the
    /// driver with a trim. Other portions are not touched.
    ///
    /// # Errors
    /// [`Error::PartOfHandle`] if a handle lies in it only in part, [`Error::BeyondMax`], or `Unaligned`.
    /// Nothing was given back then.
    pub fn give_back(&self, offset_bytes: u64, bytes: u64) -> Result<u64> {
        let portion = self.granules(offset_bytes, bytes)?;
        let blocks = self.blocks(&portion)?;
        if let Some(cut) = blocks.iter().find(|block| block.start < portion.start || block.end() > portion.end) {
            let (start_bytes, end_bytes) = (cut.start - self.whole.start, cut.end() - self.whole.start);
            return Err(Error::PartOfHandle { start_bytes, end_bytes });
        }
        let mut given_bytes = 0;
        for block in blocks {
            match self.pool.free(Address(block.start)) {
                Ok(()) => given_bytes += block.bytes,
                // Another thread has just given it back.
                Err(Error::UnknownAddress { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(given_bytes)
    }

    /// The portions that are backed, as offsets in bytes, in order; two never touch.
    #[must_use]
    pub fn backed(&self) -> Vec<Range<u64>> {
        let mut backed: Vec<Range<u64>> = Vec::new();
        for block in self.blocks(&self.whole).unwrap_or_default() {
            let (start, end) = (block.start - self.whole.start, block.end() - self.whole.start);
            match backed.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => backed.push(start..end),
            }
        }
        backed
    }

    /// How many bytes are backed.
    #[must_use]
    pub fn backed_bytes(&self) -> u64 {
        self.backed().iter().map(|range| range.end - range.start).sum()
    }

    /// Every piece of memory behind `bytes` from `offset_bytes` on.
    ///
    /// # Errors
    /// [`Error::BeyondMax`], [`Error::NotBacked`], or [`Error::Asleep`].
    pub fn segments(&self, offset_bytes: u64, bytes: u64) -> Result<Vec<Segment>> {
        let portion = self.portion(offset_bytes, bytes)?;
        let heap = self.heap()?;
        let mapper = self.pool.engine.mapper.lock();
        let inside = heap.inside.lock();
        self.covered(&portion, &blocks_in(&portion, &mapper, &inside))?;
        let slots = mapper.chains.get(&portion.chain).into_iter().flat_map(|chain| portion.slots(chain));
        let mappings = slots.filter_map(|slot| slot.current());
        let segments: Vec<Segment> =
            mappings.filter_map(|mapping| Segment::of(mapping, Address(portion.start), bytes)).collect();
        if segments.iter().map(|segment| segment.bytes).sum::<u64>() < bytes {
            return Err(Error::Asleep { what: format!("the growable buffer at {}", self.address()) });
        }
        Ok(segments)
    }

    /// Notes that this portion is used on `stream` too: once given back, it is not reused before what is queued
    /// there until then is done.
    ///
    /// # Errors
    /// [`Error::BeyondMax`], [`Error::NotBacked`], [`Error::UnknownStream`], or [`Error::NoRights`].
    pub fn record_use(&self, offset_bytes: u64, bytes: u64, stream: StreamId) -> Result<()> {
        let portion = self.portion(offset_bytes, bytes)?;
        let engine = &*self.pool.engine;
        let clock = engine.registry.clock(stream.serial, stream.home)?;
        let heap = self.heap()?;
        engine.may_use(heap, Address(portion.start), &clock)?;
        let mapper = engine.mapper.lock();
        let mut inside = heap.inside.lock();
        let blocks = blocks_in(&portion, &mapper, &inside);
        self.covered(&portion, &blocks)?;
        if stream.serial != self.stream.serial {
            for block in blocks {
                inside.add_use(block.start, &clock);
            }
        }
        Ok(())
    }

    fn heap(&self) -> Result<&Heap> {
        self.pool.engine.registry.heap(self.heap).ok_or(Error::UnknownStream { serial: self.stream.serial })
    }

    /// A portion of it, by whole granules.
    fn granules(&self, offset_bytes: u64, bytes: u64) -> Result<Portion> {
        let granule_bytes = self.pool.engine.granule_bytes();
        whole_granules("offset", offset_bytes, granule_bytes)?;
        whole_granules("part", bytes, granule_bytes)?;
        self.portion(offset_bytes, bytes)
    }

    /// A portion of it.
    fn portion(&self, offset_bytes: u64, bytes: u64) -> Result<Portion> {
        let max_bytes = self.whole.max_bytes;
        match offset_bytes.checked_add(bytes) {
            Some(end) if end <= max_bytes => {
                let start = self.whole.start + offset_bytes;
                Ok(Portion { start, end: start + bytes, ..self.whole })
            }
            _ => Err(Error::BeyondMax { offset_bytes, bytes, max_bytes }),
        }
    }

    /// The live blocks that a portion has bytes of, in address order.
    fn blocks(&self, portion: &Portion) -> Result<Vec<Gap>> {
        let heap = self.heap()?;
        let mapper = self.pool.engine.mapper.lock();
        Ok(blocks_in(portion, &mapper, &heap.inside.lock()))
    }

    /// Whether these blocks, in address order, are all of the portion.
    fn covered(&self, portion: &Portion, blocks: &[Gap]) -> Result<()> {
        let mut at = portion.start;
        for block in blocks {
            if block.start > at {
                break;
            }
            at = block.end();
        }
        if at < portion.end { Err(Error::NotBacked { offset_bytes: at - self.whole.start }) } else { Ok(()) }
    }
}

impl Drop for Growable {
    /// Gives everything back in the order of its stream; the addresses go when the memory has left them.
    fn drop(&mut self) {
        if let Err(error) = self.give_back(0, self.whole.max_bytes) {
            tracing::warn!(%error, at = %self.address(), "a growable buffer could not be given back");
        }
        let mut mapper = self.pool.engine.mapper.lock();
        let Some(chain) = mapper.chains.get_mut(&self.whole.chain) else { return };
        chain.let_go();
        if chain.is_over() {
            mapper.close_chain(self.whole.chain);
        }
    }
}

fn blocks_in(portion: &Portion, mapper: &Mapper, inside: &Inside) -> Vec<Gap> {
    let slots = mapper.chains.get(&portion.chain).into_iter().flat_map(|chain| portion.slots(chain));
    let live = slots.filter(|slot| inside.has_block(slot.at().0));
    live.map(|slot| Gap { start: slot.at().0, bytes: slot.bytes() }).collect()
}

/// Refuses what is no whole number of granules.
pub(crate) fn whole_granules(what: &'static str, bytes: u64, granule_bytes: u64) -> Result<()> {
    if !bytes.is_multiple_of(granule_bytes) {
        return Err(stitchpool_chunks::Error::Unaligned { what, bytes, granule_bytes }.into());
    }
    Ok(())
}
