//! A stream's epochs: which frees the GPU is known to be past. It knows no memory.

use crate::arena::ArenaId;
use crate::mutant::{Mutant, is_planted};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use stitchpool_chunks::{Event, Origin, stream_identity};
use stitchpool_driver::{Error, ErrorKind, RawStream, Verb};

/// How many recorded events a stream keeps. Beyond it the oldest goes: the next covers it.
const MARKS_MAX: usize = 1024;
/// The driver's two values for the legacy default stream are 0 and this.
const LEGACY_VALUE: u64 = 1;

/// A stream as the pool knows it, and how far the GPU has come on it.
///
/// A free is stamped with the open epoch. Sealing closes it, and only then records an event; when the
/// event is done, everything stamped up to that epoch is done. (The other way round a free could slip
/// in between and count as covered.)
#[derive(Debug)]
pub(crate) struct Clock {
    serial: u32,
    raw: RawStream,
    /// The driver's number of the stream. A stream that was destroyed without a word leaves its handle
    /// value to another, and an event there would tell nothing of this one.
    identity: u64,
    /// The epoch that stamps frees now. Only sealing raises it.
    open: AtomicU64,
    /// Every epoch up to it is done on the GPU.
    passed: AtomicU64,
    /// Iff a capture of the stream is open: its graph's arena. Else the default one.
    arena: AtomicU32,
    /// Iff nothing may be recorded on the stream, nor it be made to wait, because that would break a capture.
    /// Written under `seals`, so that no record is under way once it is set.
    quiet: AtomicBool,
    seals: Mutex<Seals>,
}

#[derive(Debug, Default)]
struct Seals {
    /// Recorded and not yet seen done, oldest first; epochs rise strictly.
    marks: VecDeque<Mark>,
    /// Iff the application has said that nothing will be queued on the stream any more.
    retired: bool,
    /// When an epoch was last closed.
    sealed_us: u64,
    /// When the GPU was last asked by a tick.
    asked_us: u64,
}

#[derive(Debug)]
struct Mark {
    epoch: u64,
    /// Shared, so that a CPU wait holds no lock that a free may want.
    event: Arc<Event>,
}

/// A point of a stream that freed bytes must be past.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    pub(crate) clock: Arc<Clock>,
    pub(crate) epoch: u64,
}

impl Fence {
    pub(crate) fn is_passed(&self) -> bool {
        self.epoch <= self.clock.passed()
    }
}

impl Clock {
    pub(crate) fn new(serial: u32, raw: RawStream, origin: &Origin) -> Result<Arc<Self>, Error> {
        let identity = stream_identity(origin, raw)?;
        let (open, passed) = (AtomicU64::new(1), AtomicU64::new(0));
        let (arena, quiet) = (AtomicU32::default(), AtomicBool::new(false));
        Ok(Arc::new(Self { serial, raw, identity, open, passed, arena, quiet, seals: Mutex::default() }))
    }

    /// The pool's own number of the stream; never given twice.
    pub(crate) const fn serial(&self) -> u32 {
        self.serial
    }

    pub(crate) const fn raw(&self) -> RawStream {
        self.raw
    }

    /// The default stream of its device, which lives as long as the context: what moves content goes there.
    pub(crate) const fn default_stream(&self) -> RawStream {
        RawStream { device: self.raw.device, value: 0 }
    }

    /// The epoch that a free of now belongs to.
    ///
    /// Sequentially consistent with `seal`: a free that reads an epoch before it is closed was
    /// preceded by its work's launch, and the event is recorded after.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }

    /// Everything stamped up to this is done.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Acquire)
    }

    /// Whether `epoch` is not closed yet, so that no event can tell when it is done.
    pub(crate) fn is_open(&self, epoch: u64) -> bool {
        epoch >= self.stamp()
    }

    /// Whether the stream is retired.
    pub(crate) fn is_retired(&self) -> bool {
        self.seals.lock().retired
    }

    /// Whether the stream is retired and the GPU is past all of it.
    pub(crate) fn is_over(&self) -> bool {
        let seals = self.seals.lock();
        seals.retired && seals.marks.is_empty()
    }

    /// The arena of the stream's requests that name none.
    pub(crate) fn arena(&self) -> ArenaId {
        ArenaId(self.arena.load(Ordering::Relaxed))
    }

    /// Whether a capture of the stream is open.
    pub(crate) fn is_captured(&self) -> bool {
        !self.arena().is_default()
    }

    /// Opens a capture into an arena, or with the default one ends it.
    pub(crate) fn set_arena(&self, arena: ArenaId) {
        self.arena.store(arena.0, Ordering::Relaxed);
    }

    /// Whether the driver's queue of the stream may not be touched, because that would break a capture.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// From now on it is quiet, or no longer. Waits for a record that is under way.
    pub(crate) fn set_quiet(&self, quiet: bool) {
        let _seals = self.seals.lock();
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// Whether it is a legacy default stream, which waits for what others of its device do.
    pub(crate) const fn is_legacy(&self) -> bool {
        self.raw.value <= LEGACY_VALUE
    }

    /// Closes the open epoch and records an event behind it. If recording fails the epoch stays
    /// without an event, and the next seal covers it.
    pub(crate) fn seal(&self, origin: &Arc<Origin>) -> Result<(), Error> {
        self.seal_locked(&mut self.seals.lock(), origin)
    }

    /// What a tick does, each at most every `pause_us`: seals if `epoch` is still open, and asks the
    /// GPU how far it is. (A query costs more than a free.)
    pub(crate) fn tick(&self, epoch: u64, pause_us: u64, origin: &Arc<Origin>) -> Result<(), Error> {
        if self.is_quiet() {
            return Ok(());
        }
        let mut seals = self.seals.lock();
        let now_us = origin.driver().now_us();
        if self.is_open(epoch) && now_us.saturating_sub(seals.sealed_us) >= pause_us {
            self.seal_locked(&mut seals, origin)?;
        }
        if now_us.saturating_sub(seals.asked_us) < pause_us {
            return Ok(());
        }
        seals.asked_us = now_us;
        self.poll_locked(&mut seals)
    }

    /// Asks the GPU how far it is.
    pub(crate) fn poll(&self) -> Result<(), Error> {
        self.poll_locked(&mut self.seals.lock())
    }

    fn poll_locked(&self, seals: &mut Seals) -> Result<(), Error> {
        while let Some(oldest) = seals.marks.front() {
            if !oldest.event.is_done()? {
                break;
            }
            self.passed.fetch_max(oldest.epoch, Ordering::AcqRel);
            seals.marks.pop_front();
        }
        Ok(())
    }

    /// Makes `waiter` wait for everything up to `epoch`, by the oldest event that covers it; seals
    /// only if the epoch is still open. Gives the epoch that the waiter is behind.
    pub(crate) fn hold_back(&self, waiter: RawStream, epoch: u64, origin: &Arc<Origin>) -> Result<u64, Error> {
        let mut seals = self.seals.lock();
        let mark = self.covering(&mut seals, epoch, origin)?;
        match mark {
            None => Ok(epoch),
            Some(mark) => mark.event.hold_back(waiter).map(|()| mark.epoch),
        }
    }

    /// Makes the CPU wait for everything up to `epoch`.
    pub(crate) fn finish(&self, epoch: u64, limit: Duration, origin: &Arc<Origin>) -> Result<(), Error> {
        let event = self.covering(&mut self.seals.lock(), epoch, origin)?.map(|mark| mark.event.clone());
        event.map_or(Ok(()), |event| event.finish(limit))?;
        self.poll()
    }

    /// The application queues nothing more on the stream: closes the last epoch. What is freed later
    /// belongs to it.
    pub(crate) fn retire(&self, origin: &Arc<Origin>) -> Result<(), Error> {
        let mut seals = self.seals.lock();
        if !seals.retired {
            self.seal_locked(&mut seals, origin)?;
            // Nothing is queued any more, so this event covers the epoch of later frees too.
            if let Some(last) = seals.marks.back_mut() {
                last.epoch = self.stamp();
            }
            seals.retired = true;
        }
        Ok(())
    }

    fn seal_locked(&self, seals: &mut Seals, origin: &Arc<Origin>) -> Result<(), Error> {
        if seals.retired {
            return Ok(());
        }
        if self.is_quiet() {
            let detail = format!("a capture is open that recording on stream {} would break", self.serial);
            return Err(Error::new(Verb::Record, ErrorKind::Capture, detail).on(self.raw.device));
        }
        seals.sealed_us = origin.driver().now_us();
        self.refuse_other(origin)?;
        let early = if is_planted(Mutant::RecordBeforeClosing) { Some(Event::record(origin, self.raw)?) } else { None };
        let epoch = self.open.fetch_add(1, Ordering::SeqCst);
        let event = Arc::new(early.map_or_else(|| Event::record(origin, self.raw), Ok)?);
        if seals.marks.len() >= MARKS_MAX {
            seals.marks.pop_front();
        }
        seals.marks.push_back(Mark { epoch, event });
        Ok(())
    }

    /// The oldest event that covers `epoch`; none if it is passed.
    fn covering<'a>(&self, seals: &'a mut Seals, epoch: u64, origin: &Arc<Origin>) -> Result<Option<&'a Mark>, Error> {
        if epoch <= self.passed() {
            return Ok(None);
        }
        let covered = seals.marks.back().is_some_and(|mark| mark.epoch >= epoch);
        if !covered {
            self.seal_locked(seals, origin)?;
        }
        let first = seals.marks.partition_point(|mark| mark.epoch < epoch);
        seals.marks.get(first).map(Some).ok_or_else(|| {
            let detail = format!("no event covers epoch {epoch} of a stream: it was retired before it was sealed");
            Error::new(Verb::Record, ErrorKind::InvalidValue, detail).on(self.raw.device)
        })
    }

    /// Refuses to record where another stream now bears the handle value. What was freed on the old one
    /// and not sealed stays unpassed for ever: that costs memory, and is never a fault.
    fn refuse_other(&self, origin: &Origin) -> Result<(), Error> {
        if stream_identity(origin, self.raw)? == self.identity {
            return Ok(());
        }
        let detail = format!(
            "stream {} was destroyed without being retired, and its handle value {:#x} is another stream's now",
            self.serial, self.raw.value
        );
        Err(Error::new(Verb::StreamIdentity, ErrorKind::InvalidValue, detail).on(self.raw.device))
    }
}
