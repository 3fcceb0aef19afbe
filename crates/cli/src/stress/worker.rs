//! A thread of the stress: what it holds, and each of its moves.

use super::dice::{Dice, Ground, Move};
use super::event_log::{Event, EventLog};
use super::exchange::Exchange;
use super::holding::{Cover, Holding, Owner};
use super::rig::Rig;
use crate::work::{Held, Lane};
use anyhow::{Result, anyhow, ensure};
use std::time::Instant;
use stitchpool_pool::{Block, Error, Request};

/// A thread and its blocks.
pub struct Worker {
    index: usize,
    dice: Dice,
    holdings: Vec<Holding>,
    live_bytes: u64,
    /// It holds at most so much.
    budget_bytes: u64,
    /// Its own stream.
    private: Lane,
    /// What it did last.
    pub log: EventLog,
    /// What it has done.
    pub counts: Counts,
}

/// What a thread has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Moves.
    pub ops: u64,
    /// Blocks allocated.
    pub allocs: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Times a block was used on another stream.
    pub lends: u64,
    /// Blocks taken from another thread.
    pub handovers: u64,
    /// Streams ended and begun.
    pub streams_replaced: u64,
    /// Times memory was given back, or tried to be.
    pub trims: u64,
    /// Requests refused for want of memory.
    pub refused: u64,
    /// Refusals that made faults expect.
    pub errors: u64,
}

/// When a round is over.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// At this time.
    pub time: Instant,
    /// Or when the thread has done so many moves in all.
    pub ops: u64,
}

/// Blocks up to this size bear their pattern everywhere.
const WHOLE_BYTES: u64 = 1 << 20;
/// The clock of the host driver goes on by less than this with each move.
const MOVE_US_MAX: usize = 200;
/// A stream is kept busy for less than this at once.
const DELAY_US_MAX: usize = 10_000;
/// Threads together hold so many hundredths of all memory, so that some requests are refused.
const BUDGET_PERCENT: u64 = 85;

impl Worker {
    /// A thread with nothing in its hands.
    pub fn new(rig: &Rig, index: usize, threads: usize, seed: u64) -> Result<Self> {
        let device = rig.devices[index % rig.devices.len()];
        let all_bytes = rig.capacity_bytes.saturating_mul(rig.devices.len() as u64);
        Ok(Self {
            index,
            dice: Dice::new(seed, index as u64),
            holdings: Vec::new(),
            live_bytes: 0,
            budget_bytes: all_bytes / 100 * BUDGET_PERCENT / threads as u64,
            private: Lane::open(&rig.session, &rig.pool, device)?,
            log: EventLog::default(),
            counts: Counts::default(),
        })
    }

    /// Makes moves until the round is over.
    pub fn round(&mut self, rig: &Rig, exchange: &Exchange, until: Until) -> Result<()> {
        while self.counts.ops < until.ops && Instant::now() < until.time {
            rig.pass(self.dice.below(MOVE_US_MAX) as u64);
            self.counts.ops += 1;
            self.step(rig, exchange)?;
        }
        Ok(())
    }

    /// Verifies and frees all that it holds, and what waits on the exchange.
    pub fn clear(&mut self, rig: &Rig, exchange: &Exchange) -> Result<()> {
        while let Some(holding) = exchange.take() {
            self.hold(holding);
        }
        while let Some(holding) = self.holdings.pop() {
            self.free(rig, holding)?;
        }
        Ok(())
    }

    /// Ends the thread's own stream.
    pub fn end(self, rig: &Rig) -> Result<()> {
        self.private.finish()?;
        self.private.retire(&rig.pool).map_err(|(error, _)| error.into())
    }

    fn step(&mut self, rig: &Rig, exchange: &Exchange) -> Result<()> {
        match self.dice.next_move() {
            Move::Alloc => self.alloc(rig),
            Move::Free => self.with_any(|worker, holding| worker.free(rig, holding)),
            Move::Rewrite => self.with_any(|worker, holding| worker.rewrite(rig, holding)),
            Move::Lend => self.with_any(|worker, holding| worker.lend(rig, holding)),
            Move::FreeElsewhere => self.with_any(|worker, holding| worker.free_elsewhere(rig, holding)),
            Move::HandOver => self.with_any(|worker, holding| {
                let is_own = holding.owner == Owner::Private;
                let back = if is_own { Some(holding) } else { exchange.give(holding) };
                back.into_iter().for_each(|holding| worker.hold(holding));
                Ok(())
            }),
            Move::TakeOver => {
                if let Some(holding) = exchange.take() {
                    self.counts.handovers += 1;
                    self.note(rig, "takes over", Some(&holding), String::new);
                    self.hold(holding);
                }
                Ok(())
            }
            Move::Delay => {
                let (number, micros) = (self.dice.below(rig.lanes.len()), self.dice.below(DELAY_US_MAX) as u64);
                self.note(rig, "keeps busy", None, || format!("shared stream {number} for {micros} us"));
                Ok(rig.lanes[number].delay(micros)?)
            }
            Move::Ask => self.ask(rig),
            Move::Trim => {
                self.counts.trims += 1;
                let refusal = rig.pool.trim().refusal;
                self.note(rig, "trims", None, String::new);
                refusal.map_or(Ok(()), |refusal| self.meet(rig, refusal.into()))
            }
            Move::TrimAndWait => {
                self.counts.trims += 1;
                self.note(rig, "waits and trims", None, String::new);
                let refusal = rig.pool.trim_and_wait().map_or_else(Some, |trimmed| trimmed.refusal.map(Error::from));
                refusal.map_or(Ok(()), |refusal| self.meet(rig, refusal))
            }
            Move::ReplaceStream => self.replace_stream(rig),
            Move::Fail => {
                if let Some(faulty) = &rig.faulty {
                    // Those that have not come true are forgotten, so that they do not pile up.
                    faulty.clear();
                    let fault = self.dice.fault();
                    self.note(rig, "lets a call fail", None, || format!("{fault:?}"));
                    faulty.arm(fault);
                }
                Ok(())
            }
        }
    }

    fn alloc(&mut self, rig: &Rig) -> Result<()> {
        let room_bytes = self.budget_bytes.saturating_sub(self.live_bytes).min(rig.capacity_bytes / 2);
        if room_bytes == 0 {
            return self.with_any(|worker, holding| worker.free(rig, holding));
        }
        let number = self.dice.below(rig.lanes.len() + 1);
        let owner = if number < rig.lanes.len() { Owner::Shared(number) } else { Owner::Private };
        let lane = lane(rig, &self.private, owner);
        let devices = if rig.is_meshed { rig.devices.as_slice() } else { &[] };
        let ground = Ground { devices, granule_bytes: rig.granule_bytes };
        let request = self.dice.request(room_bytes, lane.id(), &ground);
        let held = Held::alloc(&rig.pool, lane, request.clone());
        let held = match held {
            Ok(held) => held,
            Err(error) => return self.meet_request(rig, &request, error),
        };
        ensure!(held.block().bytes >= request.bytes, "{request:?} got {:?}", held.block());
        ensure!(held.block().address.is_aligned(request.alignment_bytes), "{request:?} got {:?}", held.block());
        let is_small = held.block().bytes <= WHOLE_BYTES || rig.session.host.is_none();
        let cover = if is_small || self.dice.once_in(16) { Cover::Whole } else { Cover::Pieces };
        let is_open = request.placement.is_some() || !request.readers.is_empty();
        let mut holding = Holding::new(held, owner, is_open, cover);
        holding.fill(lane, self.dice.seed())?;
        self.counts.allocs += 1;
        self.note(rig, "allocates", Some(&holding), || format!("{owner:?} {request:?}"));
        self.hold(holding);
        Ok(())
    }

    fn free(&mut self, rig: &Rig, holding: Holding) -> Result<()> {
        holding.verify(lane(rig, &self.private, holding.owner))?;
        self.note(rig, "frees", Some(&holding), String::new);
        self.let_go(rig, holding)
    }

    fn rewrite(&mut self, rig: &Rig, mut holding: Holding) -> Result<()> {
        let lane = lane(rig, &self.private, holding.owner);
        holding.verify(lane)?;
        if !holding.is_read_elsewhere {
            holding.fill(lane, self.dice.seed())?;
        }
        self.note(rig, "rewrites", Some(&holding), String::new);
        self.hold(holding);
        Ok(())
    }

    /// Another stream uses a block, after its owner. What it writes its owner waits for; what it only
    /// reads nobody waits for but the pool, after the free.
    fn lend(&mut self, rig: &Rig, mut holding: Holding) -> Result<()> {
        let (owner, number) = (holding.owner, self.dice.below(rig.lanes.len()));
        let (own, user) = (lane(rig, &self.private, owner), &rig.lanes[number]);
        if owner == Owner::Shared(number) || !(holding.is_open || own.device() == user.device()) {
            self.hold(holding);
            return Ok(());
        }
        if let Err(error) = holding.held.lend(&rig.pool, user) {
            self.hold(holding);
            return self.meet(rig, error);
        }
        user.follow(own)?;
        holding.verify(user)?;
        if !holding.is_read_elsewhere && self.dice.once_in(2) {
            holding.fill(user, self.dice.seed())?;
            own.follow(user)?;
        } else {
            holding.is_read_elsewhere = true;
        }
        self.counts.lends += 1;
        self.note(rig, "lends", Some(&holding), || format!("to shared stream {number}"));
        self.hold(holding);
        Ok(())
    }

    /// A block's last use is on a stream that the pool hears of only with the free.
    fn free_elsewhere(&mut self, rig: &Rig, mut holding: Holding) -> Result<()> {
        let (own, number) = (lane(rig, &self.private, holding.owner), self.dice.below(rig.lanes.len()));
        let user = &rig.lanes[number];
        if !holding.held.end_on(user) {
            self.hold(holding);
            return Ok(());
        }
        user.follow(own)?;
        holding.verify(user)?;
        self.counts.lends += 1;
        self.note(rig, "frees elsewhere", Some(&holding), || format!("on shared stream {number}"));
        self.let_go(rig, holding)
    }

    /// What the pool says of a block must be true.
    fn ask(&mut self, rig: &Rig) -> Result<()> {
        let Some(holding) = self.holdings.last() else { return Ok(()) };
        let block = holding.held.block();
        let last = block.address + (block.bytes - 1);
        ensure!(rig.pool.block_holding(last) == Some(block), "{last} is not known to lie in {block:?}");
        let segments = rig.pool.segments(block.address, block.bytes)?;
        let mut end = block.address;
        for segment in &segments {
            ensure!(segment.at == end, "the segments of {block:?} leave a hole at {end}: {segments:?}");
            end = end + segment.bytes;
        }
        ensure!(end == block.address + block.bytes, "the segments of {block:?} end at {end}: {segments:?}");
        Ok(())
    }

    /// Ends the thread's own stream; half of its blocks are freed only then.
    fn replace_stream(&mut self, rig: &Rig) -> Result<()> {
        let (mut own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.holdings).into_iter().partition(|holding| holding.owner == Owner::Private);
        self.holdings = others;
        own.iter().try_for_each(|holding| holding.verify(&self.private))?;
        let late = own.split_off(own.len() / 2);
        own.into_iter().try_for_each(|holding| self.let_go_of(rig, holding))?;
        self.note(rig, "replaces its stream", None, String::new);
        let next = match Lane::open(&rig.session, &rig.pool, self.private.device()) {
            Ok(next) => next,
            Err(error) => {
                late.into_iter().try_for_each(|holding| self.let_go_of(rig, holding))?;
                return Err(error);
            }
        };
        match std::mem::replace(&mut self.private, next).retire(&rig.pool) {
            Ok(()) => self.counts.streams_replaced += 1,
            Err((error, old)) => {
                // The new one goes instead; nothing was queued on it.
                let _ = std::mem::replace(&mut self.private, old).retire(&rig.pool);
                self.meet(rig, error)?;
            }
        }
        late.into_iter().try_for_each(|holding| self.let_go_of(rig, holding))
    }

    fn let_go_of(&mut self, rig: &Rig, holding: Holding) -> Result<()> {
        self.live_bytes -= holding.bytes();
        self.let_go(rig, holding)
    }

    /// Frees a block that is not counted any more.
    fn let_go(&mut self, rig: &Rig, holding: Holding) -> Result<()> {
        self.counts.frees += 1;
        holding.held.free(&rig.pool).map_err(|(error, _)| anyhow!("a free was refused: {error}"))
    }

    /// Does something with a block chosen at random, if there is one.
    fn with_any(&mut self, with: impl FnOnce(&mut Self, Holding) -> Result<()>) -> Result<()> {
        if self.holdings.is_empty() {
            return Ok(());
        }
        let chosen = self.dice.below(self.holdings.len());
        let holding = self.holdings.swap_remove(chosen);
        self.live_bytes -= holding.bytes();
        with(self, holding)
    }

    fn hold(&mut self, holding: Holding) {
        self.live_bytes += holding.bytes();
        self.holdings.push(holding);
    }

    fn meet_request(&mut self, rig: &Rig, request: &Request, error: Error) -> Result<()> {
        self.note(rig, "is refused", None, || format!("{request:?}: {error}"));
        if matches!(error, Error::OutOfMemory(_)) {
            self.counts.refused += 1;
            return Ok(());
        }
        self.meet(rig, error)
    }

    /// A refusal: expected where the driver is made to refuse, else the end.
    fn meet(&mut self, rig: &Rig, error: Error) -> Result<()> {
        let is_expected =
            rig.faulty.is_some() && matches!(error, Error::Driver(_) | Error::Chunks(_) | Error::OutOfMemory(_));
        if !is_expected {
            return Err(anyhow!("unexpected: {error}"));
        }
        self.counts.errors += 1;
        Ok(())
    }

    fn note(&mut self, rig: &Rig, what: &'static str, holding: Option<&Holding>, note: impl FnOnce() -> String) {
        let block: Option<Block> = holding.map(|holding| holding.held.block());
        self.log.keep(Event { number: rig.next_event(), thread: self.index, what, block, note: note() });
    }
}

fn lane<'a>(rig: &'a Rig, private: &'a Lane, owner: Owner) -> &'a Lane {
    match owner {
        Owner::Shared(number) => &rig.lanes[number],
        Owner::Private => private,
    }
}
