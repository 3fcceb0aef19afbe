//! Captures and graph arenas: where a captured stream's requests go, and when their memory is again that
//! of an ordinary arena. It makes no driver call on a captured stream but the question whether it is.

use crate::arena::{ArenaId, Wakefulness};
use crate::capture::Capture;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::inside::Inside;
use crate::mapper::Mapper;
use crate::pool::Pool;
use crate::request::StreamId;
use std::sync::Arc;
use stitchpool_chunks::capture_of;
use stitchpool_driver::Capture as State;

impl Pool {
    /// Makes `arena` a graph's: until [`Pool::end_capture`], every request of `stream` that names no arena
    /// is served there. Nobody takes, trims or moves the arena's memory before [`Pool::release_graph`],
    /// also when its blocks are freed: a replay still uses it. A freed block serves later requests of the
    /// same stream in the arena, as the order of the captured work allows.
    ///
    /// The caller begins the driver's capture itself, before or after. While a capture is open the pool
    /// records nothing on the stream, and nothing on legacy default streams; it asks and waits for nothing
    /// on behalf of the stream. What cannot be had from free memory of the arena, idle handles or new ones
    /// is [`Error::OutOfMemory`], and the capture stays valid. A trim beforehand makes room.
    ///
    /// Another stream that joins the capture is begun with the same arena while it is open, and ended by
    /// itself; it counts as the same graph. A later capture into the arena is a further graph: replays must
    /// then run in the order of their captures. What was freed in the arena earlier must be done when the
    /// graph is first launched.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use stitchpool_driver::host::{HostConfig, HostDriver};
    /// # use stitchpool_driver::{DeviceId, Driver, Kernels};
    /// # use stitchpool_pool::{Pool, Request, Settings};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let host = HostDriver::new(HostConfig::default())?;
    /// let pool = Pool::new(host.clone(), Settings::default())?;
    /// let raw = host.create_stream(DeviceId(0))?;
    /// let stream = pool.register(raw)?;
    /// let arena = pool.arena("my graph")?;
    ///
    /// pool.begin_capture(stream, arena)?;
    /// host.begin_capture(raw)?;
    /// let block = pool.alloc(&Request::new(1 << 20, stream))?;
    /// host.touch(raw, block.address, block.bytes, stitchpool_driver::Rights::ReadWrite)?;
    /// pool.free(block.address)?;
    /// let graph = host.end_capture(raw)?;
    /// pool.end_capture(stream)?;
    ///
    /// host.launch(raw, &graph)?;
    /// drop(graph);
    /// pool.release_graph(arena)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownStream`], [`Error::UnknownArena`], [`Error::Asleep`], [`Error::Busy`];
    /// [`Error::InUse`] for the default arena; [`Error::Capturing`] where the stream is being captured
    /// already (a capture that the driver has ended meanwhile is ended first); or the driver's.
    pub fn begin_capture(&self, stream: StreamId, arena: ArenaId) -> Result<()> {
        self.engine.begin_capture(stream, arena)
    }

    /// The stream's requests are served as before. The arena remains its graph's. No driver call is made:
    /// it works whether the driver's capture has ended, failed or never begun, and whether the stream lives.
    ///
    /// # Errors
    /// [`Error::NotCapturing`].
    pub fn end_capture(&self, stream: StreamId) -> Result<()> {
        let mut mapper = self.engine.mapper.lock();
        self.engine.end(&mut mapper, stream.serial).map(drop)
    }

    /// Ends the stream's capture and those of all streams that joined it, of which no graph has come, and
    /// releases it: as [`Pool::end_capture`] and [`Pool::release_graph`].
    ///
    /// # Errors
    /// [`Error::NotCapturing`].
    pub fn abort_capture(&self, stream: StreamId) -> Result<()> {
        let mut mapper = self.engine.mapper.lock();
        let arena = self.engine.end(&mut mapper, stream.serial)?;
        let joined: Vec<u32> =
            mapper.captures.all().filter(|other| other.arena == arena).map(Capture::serial).collect();
        for serial in joined {
            self.engine.recall(&mut mapper, serial)?;
        }
        self.engine.release(&mut mapper, arena)
    }

    /// A graph with memory in the arena is destroyed. When as many are released as were captured there, the
    /// arena is an ordinary one: its free memory serves others, once all that is queued so far on the
    /// pool's streams is done (a replay among it), and its live blocks stay until they are freed. Replays
    /// on streams that the pool does not know must be done before.
    ///
    /// # Errors
    /// [`Error::NoGraph`], [`Error::UnknownArena`]; [`Error::Capturing`] while the last of its graphs is
    /// being captured.
    pub fn release_graph(&self, arena: ArenaId) -> Result<()> {
        let mut mapper = self.engine.mapper.lock();
        if mapper.captures.graphs(arena) == 1
            && let Some(capture) = mapper.captures.all().find(|capture| capture.arena == arena)
        {
            return Err(Error::Capturing { serial: capture.serial(), operation: "releasing its graph" });
        }
        self.engine.release(&mut mapper, arena)
    }

    /// The arena that the stream's requests are served from while it is being captured; `None`: it is not,
    /// as far as the pool was told or, with the setting `ask_capture`, has seen.
    ///
    /// # Errors
    /// [`Error::UnknownStream`].
    pub fn graph_arena(&self, stream: StreamId) -> Result<Option<ArenaId>> {
        let clock = self.engine.registry.clock(stream.serial, stream.home)?;
        Ok(clock.is_captured().then(|| clock.arena()))
    }

    /// Forgets an arena that has no blocks. Its free memory serves the others, and its name may be given
    /// to a new one.
    ///
    /// # Errors
    /// [`Error::UnknownArena`], [`Error::Busy`]; [`Error::InUse`] where it has live blocks, growable buffers or
    /// graphs, where leases or views hold what was freed in it, or is the default one.
    pub fn dissolve(&self, arena: ArenaId) -> Result<()> {
        self.engine.dissolve(arena)
    }
}

impl Engine {
    fn begin_capture(&self, stream: StreamId, arena: ArenaId) -> Result<()> {
        let clock = self.registry.clock(stream.serial, stream.home)?;
        let mut mapper = self.mapper.lock();
        let named = mapper.arenas.get(arena)?;
        if arena.is_default() {
            let why = "it serves the requests that name none: make an arena for the graph".into();
            return Err(Error::InUse { what: named.title(), why });
        }
        named.demand_awake()?;
        let state = capture_of(&self.origin, clock.raw())?;
        if clock.is_captured() {
            if state != State::None {
                return Err(Error::Capturing { serial: stream.serial, operation: "a second capture of it" });
            }
            self.recall(&mut mapper, stream.serial)?;
        }
        self.divert(&mut mapper, Capture { clock, arena, seen: state != State::None });
        Ok(())
    }

    /// The stream is captured from now on: what it asks for goes to the arena.
    fn divert(&self, mapper: &mut Mapper, capture: Capture) {
        let serial = capture.serial();
        // What was freed so far can then pass while the capture is open.
        if !capture.seen
            && let Err(error) = capture.clock.seal(&self.origin)
        {
            tracing::debug!(%error, stream = serial, "a stream could not be sealed before its capture");
        }
        mapper.captures.open(capture);
        mapper.captures.hush(mapper.clocks.values());
        self.each_diverted(serial, Inside::close);
    }

    /// The application ends the stream's capture; another thread may have seen that the driver has.
    fn end(&self, mapper: &mut Mapper, serial: u32) -> Result<ArenaId> {
        match mapper.captures.take_ended(serial) {
            Some(arena) => Ok(arena),
            None => self.recall(mapper, serial).map(|ended| ended.arena),
        }
    }

    /// The stream is captured no longer.
    fn recall(&self, mapper: &mut Mapper, serial: u32) -> Result<Capture> {
        let ended = mapper.captures.end(serial).ok_or(Error::NotCapturing { serial })?;
        mapper.captures.hush(mapper.clocks.values().chain([&ended.clock]));
        if mapper.arenas.get(ArenaId::DEFAULT).is_ok_and(|arena| arena.wakefulness == Wakefulness::Awake) {
            self.each_diverted(serial, Inside::reopen);
        }
        Ok(ended)
    }

    /// Does something to the heaps that serve the stream's requests that name no arena.
    fn each_diverted(&self, serial: u32, change: impl Fn(&mut Inside)) {
        for heap in self.registry.heaps() {
            let mut inside = heap.inside.lock();
            let of_stream = |key: &crate::heap::HeapKey| key.serial == serial && key.arena.is_default();
            if inside.tenant.as_ref().is_some_and(|tenant| of_stream(&tenant.key)) {
                change(&mut inside);
            }
        }
    }

    /// One graph of the arena is gone. After the last, its memory waits for all that may be a replay.
    fn release(&self, mapper: &mut Mapper, arena: ArenaId) -> Result<()> {
        let what = mapper.arenas.get(arena)?.title();
        if !mapper.captures.release(arena).ok_or(Error::NoGraph { what })? {
            return Ok(());
        }
        for heap in self.heaps_of(arena) {
            let users = self.grantees(mapper, &[heap.index]);
            let mut inside = heap.inside.lock();
            let Some(tenant) = inside.tenant.clone() else { continue };
            let replays =
                |clock: &&Arc<Clock>| clock.serial() != tenant.key.serial && users.contains(&clock.raw().device);
            let clocks: Vec<Arc<Clock>> = mapper.clocks.values().filter(replays).cloned().collect();
            inside.free_again(&clocks);
        }
        Ok(())
    }

    fn dissolve(&self, arena: ArenaId) -> Result<()> {
        let mut mapper = self.mapper.lock();
        let named = mapper.arenas.get(arena)?;
        named.demand_still()?;
        let what = named.title();
        let blocks: usize = self.heaps_of(arena).map(|heap| heap.inside.lock().block_count()).sum();
        let graphs = mapper.captures.graphs(arena);
        let why = match (blocks, graphs) {
            _ if arena.is_default() => "it serves the requests that name none".into(),
            (0, 0) if self.has_buffers(&mapper, arena) => "growable buffers are in it: drop them first".into(),
            (0, 0) if self.heaps_of(arena).any(|heap| heap.inside.lock().holds.freed().next().is_some()) => {
                "leases or views hold what was freed in it: end them first".into()
            }
            (0, 0) => {
                self.registry.abandon(|key| key.arena == arena);
                mapper.arenas.remove(arena);
                return Ok(());
            }
            (0, _) => format!("{graphs} graphs have memory in it: release them first"),
            _ => format!("{blocks} blocks are live in it: free them first"),
        };
        Err(Error::InUse { what, why })
    }

    /// Whether growable buffers are in an arena that can still grow.
    fn has_buffers(&self, mapper: &Mapper, arena: ArenaId) -> bool {
        self.heaps_of(arena).any(|heap| {
            let serial = heap.inside.lock().tenant.as_ref().map_or(0, |tenant| tenant.key.serial);
            mapper.chains.values().any(|chain| chain.heap() == heap.index && chain.is_kept_for(serial))
        })
    }

    /// Ends captures that the driver had begun and has ended since, without a word to the pool.
    pub(crate) fn end_abandoned(&self, mapper: &mut Mapper) {
        let open: Vec<Capture> = mapper.captures.all().cloned().collect();
        for capture in open {
            let serial = capture.serial();
            match capture_of(&self.origin, capture.clock.raw()) {
                Ok(State::None) if capture.seen => self.end_unasked(mapper, serial),
                Ok(State::None) => {}
                Ok(_) => mapper.captures.confirm(serial),
                Err(error) => tracing::debug!(%error, stream = serial, "a captured stream could not be asked"),
            }
        }
    }

    /// The driver has ended a capture. The application may be about to say so too.
    fn end_unasked(&self, mapper: &mut Mapper, serial: u32) {
        if let Ok(ended) = self.recall(mapper, serial) {
            mapper.captures.note_ended(&ended);
        }
    }

    /// Refuses what a captured stream does not stand, unless the driver has ended the capture, or never
    /// begun it: it is ended here then.
    pub(crate) fn demand_ended(&self, serial: u32, operation: &'static str) -> Result<()> {
        let mut mapper = self.mapper.lock();
        let Some(capture) = mapper.captures.of(serial).cloned() else { return Ok(()) };
        if capture_of(&self.origin, capture.clock.raw())? != State::None {
            return Err(Error::Capturing { serial, operation });
        }
        self.recall(&mut mapper, serial).map(drop)
    }

    /// Asks the driver whether a stream is being captured, and opens or ends the pool's capture of it. What
    /// the driver does not answer changes nothing.
    pub(crate) fn follow_capture(&self, clock: &Arc<Clock>) {
        let Ok(state) = capture_of(&self.origin, clock.raw()) else { return };
        let captured = state != State::None;
        if captured == clock.is_captured() {
            return;
        }
        let serial = clock.serial();
        let mut mapper = self.mapper.lock();
        // Another thread may have seen the same meanwhile.
        match mapper.captures.of(serial).map(|capture| capture.seen) {
            Some(true) if !captured => self.end_unasked(&mut mapper, serial),
            Some(_) => {}
            None if !captured => {}
            None => match mapper.arenas.named(&format!("captures of stream {serial}")) {
                Ok(arena) => self.divert(&mut mapper, Capture { clock: clock.clone(), arena, seen: true }),
                Err(error) => tracing::warn!(%error, stream = serial, "a capture has no arena"),
            },
        }
    }
}
