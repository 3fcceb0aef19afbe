//! The pool's public face.

use crate::arena::ArenaId;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::{Heap, HeapKey, Tenant};
use crate::listener::{Interest, Listener, ListenerId};
use crate::mapper::backup::Backup;
use crate::miss::job::Job;
use crate::operation::sleep::Suspended;
use crate::operation::swap::Migrated;
use crate::operation::wake::Resumed;
use crate::pin::Pin;
use crate::registry::{ASKED, Registry};
use crate::request::{Block, Request, StreamId, units_asked};
use crate::scope::Scope;
use crate::settings::Settings;
use crate::shortage::Shortage;
use crate::trim::Trimmed;
use crate::unit::UNIT_BYTES;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stitchpool_chunks::Placement;
use stitchpool_driver::{Address, DeviceId, Driver, RawStream};

/// A memory pool over stitched ranges of one or more devices.
///
/// Cheap to clone; all clones are the same pool. When the last one goes, the pool waits for the
/// streams and gives everything back. If blocks are still live then, their memory is left standing,
/// because somebody may be using it.
#[derive(Clone)]
pub struct Pool {
    pub(crate) engine: Arc<Engine>,
    relief: Arc<RwLock<Vec<Arc<Relief>>>>,
}

/// Told of a shortage in a pool, with no lock held; says whether it has freed anything.
pub type Relief = dyn Fn(&Pool, &Shortage) -> bool + Send + Sync;

/// How often one request is told of, at most: relief may come in small pieces.
const RELIEFS_MAX: usize = 1024;

impl Pool {
    /// A pool over the devices of `driver`.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::UnknownDevice`], or the driver's when it cannot tell of its devices
    /// or reserve addresses.
    pub fn new(driver: Arc<dyn Driver>, settings: Settings) -> Result<Self> {
        let engine = Arc::new(Engine::open(driver, settings)?);
        Ok(Self { engine, relief: Arc::default() })
    }

    /// The name of the driver that it runs on: `"cuda"` or `"host"`.
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.engine.origin.driver().name()
    }

    /// The arena of this name, made if there is none yet.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    pub fn arena(&self, name: &str) -> Result<ArenaId> {
        self.engine.mapper.lock().arenas.named(name)
    }

    /// Registers a stream. Blocks are allocated and freed in the order of its work.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`], or [`Error::TooMany`].
    pub fn register(&self, stream: RawStream) -> Result<StreamId> {
        let engine = &*self.engine;
        engine.known_device(stream.device)?;
        let serial = Registry::next_serial()?;
        let clock = Clock::new(serial, stream, &engine.origin)?;
        let (arena, placement) = (ArenaId::DEFAULT, Placement::Home(stream.device));
        let key = HeapKey { serial, arena, placement, readers: Vec::new(), block_bytes: None, exclusive: false };
        let mut mapper = engine.mapper.lock();
        engine.put_to_work(&mut mapper, stream.device)?;
        let home = engine.house(&mapper, key, &clock)?;
        engine.forget_retired(&mut mapper);
        mapper.clocks.insert(serial, clock);
        mapper.captures.hush(mapper.clocks.values());
        engine.set_watched(&mapper);
        let asked = if engine.settings.ask_capture { ASKED } else { 0 };
        Ok(StreamId { serial, home: home | asked })
    }

    /// Nothing more will be queued on the stream: call it before the stream is destroyed. Its blocks
    /// may still be freed, and its memory serves the other streams. A capture that the driver has ended
    /// ends here too.
    ///
    /// # Errors
    /// [`Error::UnknownStream`], [`Error::Capturing`], or the driver's; the stream is then still registered.
    pub fn retire(&self, stream: StreamId) -> Result<()> {
        let engine = &*self.engine;
        let clock = engine.registry.clock(stream.serial, stream.home)?;
        if clock.is_captured() {
            engine.demand_ended(stream.serial, "retiring it")?;
        }
        clock.retire(&engine.origin)?;
        engine.registry.retire(&clock);
        engine.littered.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Allocates a block. Its content is undefined.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] after everything was tried; [`Error::InvalidSize`],
    /// [`Error::InvalidAlignment`], [`Error::UnknownStream`], [`Error::UnknownDevice`],
    /// [`Error::Unreachable`], or the driver's.
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<Block> {
        let hit = request.plain_units().and_then(|units| self.engine.hit(units, request.stream));
        hit.map_or_else(|| self.alloc_otherwise(request), Ok)
    }

    /// Allocates a block as [`alloc`](Self::alloc) does for [`Request::new`], but only if it takes no more than a
    /// look at the stream's free bytes. `None`: nothing was done, and `alloc` serves the request or says why not.
    #[inline(always)]
    #[must_use]
    pub fn alloc_at_once(&self, bytes: u64, stream: StreamId) -> Option<Block> {
        units_asked(bytes).and_then(|units| self.engine.hit(units, stream))
    }

    /// Frees the block at `address` as [`free`](Self::free) does. False: nothing was done, and `free` says why not.
    #[inline(always)]
    #[must_use]
    pub fn free_at_once(&self, address: Address) -> bool {
        self.engine.free_plain(address)
    }

    /// What is no plain hit: placed, aligned, captured, wrong, or a miss.
    #[cold]
    #[inline(never)]
    fn alloc_otherwise(&self, request: &Request) -> Result<Block> {
        let (heap, units) = self.engine.resolve(request)?;
        self.alloc_in(heap, units, request).unwrap_or_else(|| self.alloc_diverted(request))
    }

    /// A block from this heap; `None`: it serves no request of the stream now.
    fn alloc_in(&self, heap: &Heap, units: u32, request: &Request) -> Option<Result<Block>> {
        let alignment_bytes = request.alignment_bytes.max(UNIT_BYTES);
        let mut inside = heap.inside.lock();
        if !inside.serves(request.stream.serial) {
            return None;
        }
        if !request.exclusive
            && let Some(address) = heap.take(&mut inside, units, alignment_bytes)
        {
            return Some(Ok(Block::of(address, units)));
        }
        inside.misses += 1;
        let tenant = inside.tenant.clone()?;
        drop(inside);
        Some(self.miss(heap, tenant, units, alignment_bytes).map(|address| Block::of(address, units)))
    }

    /// Serves a request whose heap is closed: in the arena of its stream's capture, if one is open.
    #[cold]
    fn alloc_diverted(&self, request: &Request) -> Result<Block> {
        let (heap, units) = self.engine.resolve_placed(request)?;
        self.alloc_in(heap, units, request)
            .unwrap_or_else(|| Err(self.engine.mapper.lock().refusal(heap, request.stream.serial)))
    }

    /// Serves a miss; while memory is short, asks for relief and tries again as long as some comes.
    #[cold]
    fn miss(&self, heap: &Heap, tenant: Tenant, units: u32, alignment_bytes: u64) -> Result<u64> {
        self.serve(|| self.engine.job(heap, tenant.clone(), units, alignment_bytes))
    }

    /// Serves a job, with relief while memory is short.
    pub(crate) fn serve<'a>(&self, job: impl Fn() -> Job<'a>) -> Result<u64> {
        let serve = || self.engine.with_room(|| self.engine.serve(job()));
        let mut served = serve();
        for told in 0..RELIEFS_MAX {
            let Err(Error::OutOfMemory(shortage)) = &served else { break };
            // Each wait that did not end took its time: once is enough of that.
            let worthwhile = told == 0 || shortage.waits.is_empty();
            if !worthwhile || !self.relieve(shortage) {
                break;
            }
            served = serve();
        }
        served
    }

    /// Calls everybody who wants to hear of a shortage, with no lock held: not where nothing could help.
    fn relieve(&self, shortage: &Shortage) -> bool {
        if shortage.is_hopeless() {
            return false;
        }
        let relief: Vec<_> = self.relief.read().clone();
        // Everybody is asked, also after one has freed something.
        relief.iter().filter(|relief| relief(self, shortage)).count() > 0
    }

    /// Frees the block at `address`, in the order of the stream it was allocated for: what is queued
    /// there so far may still use it. From any thread.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`].
    #[inline(always)]
    pub fn free(&self, address: Address) -> Result<()> {
        if self.free_at_once(address) { Ok(()) } else { Err(self.engine.unknown(address)) }
    }

    /// Frees the block at `address` after what is queued so far on its own stream and on `stream`.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`], [`Error::UnknownStream`], or [`Error::NoRights`].
    pub fn free_on(&self, address: Address, stream: StreamId) -> Result<()> {
        let clock = self.engine.registry.clock(stream.serial, stream.home)?;
        let heap = self.engine.heap_of(address)?;
        let own = heap.inside.lock().tenant.as_ref().is_some_and(|tenant| tenant.key.serial == stream.serial);
        if own {
            return self.engine.free(address, None);
        }
        self.engine.may_use(heap, address, &clock)?;
        self.engine.free(address, Some(clock))
    }

    /// Notes that the block at `address` is used on `stream` too: once freed, it is not reused before
    /// what is queued there until then is done.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`], [`Error::UnknownStream`], or [`Error::NoRights`].
    pub fn record_use(&self, address: Address, stream: StreamId) -> Result<()> {
        let clock = self.engine.registry.clock(stream.serial, stream.home)?;
        let heap = self.engine.heap_of(address)?;
        self.engine.may_use(heap, address, &clock)?;
        let mut inside = heap.inside.lock();
        let own = inside.tenant.as_ref().is_some_and(|tenant| tenant.key.serial == stream.serial);
        let known = if own { inside.has_block(address.0) } else { inside.add_use(address.0, &clock) };
        drop(inside);
        if known { Ok(()) } else { Err(self.engine.unknown(address)) }
    }

    /// Gives back to the driver what is wholly free and past every stream. Waits for nothing.
    pub fn trim(&self) -> Trimmed {
        self.engine.trim()
    }

    /// Waits until the streams have done what is queued so far, each for the setting's `wait_max` at
    /// most, then trims.
    ///
    /// # Errors
    /// The driver's first refusal to wait, `Timeout` among them; nothing was given back then.
    pub fn trim_and_wait(&self) -> Result<Trimmed> {
        Ok(self.engine.trim_and_wait()?)
    }

    /// Gives the memory of all blocks of a scope back to the driver; their addresses stay theirs. Waits
    /// first for all work of every device that may use them; from the call to the return nothing may be
    /// queued that uses them. They may be freed while they sleep. A second suspend does nothing and says so.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Busy`], [`Error::Shared`], [`Error::UnknownArena`],
    /// [`Error::UnknownAddress`], [`Error::Backup`], [`Error::Disk`], [`Error::Limit`], or the driver's.
    /// The blocks are then awake as before; but what was given back already, and is somebody else's by then,
    /// sleeps on with its backup, and a resume brings it back.
    pub fn suspend(&self, scope: Scope, backup: &Backup) -> Result<Suspended> {
        self.engine.suspend(scope, backup)
    }

    /// Takes memory for all blocks of a scope that sleep, under the same addresses, open to the same
    /// devices and with the same bytes. A second resume does nothing and says so. Where memory is short, work that
    /// still uses freed memory is waited for, each stream for the setting's `wait_max` at most, and then
    /// [evictable](Self::set_evictable) blocks go out; an arena comes back without its blocks that were evicted.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], as [`suspend`](Self::suspend), or the driver's. The blocks then sleep on with
    /// their backups, and the call can be repeated.
    pub fn resume(&self, scope: Scope) -> Result<Resumed> {
        self.engine.with_room(|| self.engine.resume(scope))
    }

    /// Moves the memory of all blocks of a scope to `device`: the bytes are copied, addresses and rights stay.
    /// Waits and is refused as [`suspend`](Self::suspend) is. Like rights, the place outlives the memory: what is
    /// backed later of a growable buffer, or of that range of it, lies there too. Such a range need not be backed.
    ///
    /// # Errors
    /// As [`suspend`](Self::suspend); [`Error::Unreachable`] where a device with rights cannot reach the new
    /// memory; [`Error::Limit`] or the driver's where there is no room. All is then where it was.
    pub fn migrate(&self, scope: Scope, device: DeviceId) -> Result<Migrated> {
        self.engine.migrate(scope, device)
    }

    /// Exchanges the memory behind two blocks or ranges with handles of their own and of the same layout:
    /// nothing is copied, each finds at its address what was at the other's. Rights stay with the addresses.
    ///
    /// # Errors
    /// As [`migrate`](Self::migrate); [`Error::Layout`]. All is then where it was.
    pub fn exchange(&self, one: Scope, other: Scope) -> Result<()> {
        self.engine.exchange(one, other)
    }

    /// Asks to be told when memory is short, before a request fails. Called with no lock held; may
    /// use the pool. As long as any says that it has freed something, the request is tried again
    /// and, where that was not enough, told again.
    pub fn on_shortage(&self, relief: Arc<Relief>) {
        self.relief.write().push(relief);
    }

    /// Asks to be told before memory leaves its addresses, and after it has come back. Called
    /// with no lock held; may use the pool.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    pub fn listen(&self, listener: Arc<dyn Listener>, interest: Interest) -> Result<ListenerId> {
        self.engine.listeners.add(listener, interest)
    }

    /// Asks no longer; the listener may be told once more of what is under way. False: there is no such.
    pub fn unlisten(&self, id: ListenerId) -> bool {
        self.engine.listeners.remove(id)
    }

    /// Keeps the handles behind `bytes` from `address` on, which lie in one live block, where they are until
    /// the pin is dropped, also after the block was freed: somebody outside the pool uses them. The
    /// addresses may serve other blocks of the same heap meanwhile.
    ///
    /// # Errors
    /// [`Error::UnknownAddress`], or [`Error::OutOfRange`].
    pub fn pin(&self, address: Address, bytes: u64) -> Result<Pin> {
        Pin::new(self.engine.clone(), address, bytes)
    }

    /// Ends the thread that [`Settings::background_thread`] asked for, if it runs: from now on frees do its work. For
    /// the end of a process whose pool stays to the last, while the driver below it goes.
    pub fn end_background_thread(&self) {
        if let Some(background) = &self.engine.background {
            background.end();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pool").field(&self.engine).finish()
    }
}
