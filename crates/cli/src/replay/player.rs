//! Plays a trace, step by step, and counts.

use super::books::Books;
use super::rig::{Rig, Spread};
use super::script::Script;
use super::witness::{Sight, Witness};
use crate::work::{Held, Lane};
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use std::time::{Duration, Instant};
use stitchpool_trace::Op;

/// A run of a trace, and where it is.
pub struct Player<'a> {
    script: &'a Script,
    rig: &'a Rig,
    books: Books,
    /// By device and the trace's number of the block; none where it was refused or freed.
    blocks: Vec<Vec<Option<Standing>>>,
    /// Where each stream shall be kept behind the CPU.
    behind: Option<Behind>,
    is_checked: bool,
    /// The time of the trace's first event in this round.
    start_us: u64,
    witness: &'a mut dyn Witness,
}

/// Who is told of a run while it goes on.
pub struct Audience<'a> {
    /// Shows how far it is.
    pub bar: &'a ProgressBar,
    /// Sees every step.
    pub witness: &'a mut dyn Witness,
}

/// A live block of the trace.
struct Standing {
    held: Held,
    /// How it lies, in bytes as the trace asked for them, scaled.
    spread: Spread,
    stream: usize,
    seed: u64,
}

/// Keeps streams busy, so that reuse or unmapping too early is seen.
struct Behind {
    lag: Duration,
    /// Until when each stream has something to do, by device and number.
    until: Vec<Vec<Instant>>,
}

/// How a trace shall be played.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// How often.
    pub rounds: u32,
    /// Whether blocks are filled and verified.
    pub is_checked: bool,
    /// How far streams are kept behind, where the driver does not do it itself.
    pub lag: Duration,
}

impl<'a> Player<'a> {
    /// Plays the trace and leaves the last round's blocks live.
    pub fn play(script: &'a Script, rig: &'a Rig, manner: Manner, audience: Audience<'a>) -> Result<Self> {
        let duration_us = script.duration_us().saturating_mul(u64::from(manner.rounds));
        let needs_delay = manner.is_checked && rig.session.host.is_none();
        let mut player = Self {
            script,
            rig,
            books: Books::new(rig, duration_us),
            blocks: Vec::new(),
            behind: needs_delay.then(|| Behind::new(rig, manner.lag)),
            is_checked: manner.is_checked,
            start_us: 0,
            witness: audience.witness,
        };
        for round in 0..manner.rounds {
            if round > 0 {
                player.clear()?;
                player.start_us += script.duration_us();
                player.books.open_round(rig);
            }
            player.round(audience.bar)?;
            player.books.close_round();
        }
        Ok(player)
    }

    /// Frees what is live, waits for the streams, and hands over what was counted. Freeing is not part
    /// of the trace, so it costs nothing.
    pub fn end(mut self) -> Result<Books> {
        let (driver_us, driver_us_second_half) = (self.books.driver_us, self.books.driver_us_second_half);
        self.clear()?;
        (self.books.driver_us, self.books.driver_us_second_half) = (driver_us, driver_us_second_half);
        for lane in self.rig.lanes.iter().flatten() {
            lane.finish()?;
        }
        Ok(self.books)
    }

    fn round(&mut self, bar: &ProgressBar) -> Result<()> {
        self.blocks = self.script.devices.iter().map(|_| Vec::new()).collect();
        self.reach(0);
        for (device, steps) in self.script.devices.iter().enumerate() {
            for block in &steps.initial {
                self.alloc(device, block.size_bytes, block.stream as usize)?;
            }
        }
        // Blocks that stood before the trace are no requests of it.
        if self.books.rounds.is_empty() {
            (self.books.hits, self.books.misses) = (0, 0);
        }
        for (index, (device, step)) in self.script.steps().enumerate() {
            if index % BAR_STEPS == 0 {
                bar.inc(BAR_STEPS as u64);
            }
            self.reach(step.time_us);
            match step.op {
                Op::Alloc { size_bytes, stream, .. } => self.alloc(device, size_bytes, stream as usize)?,
                Op::Free { id } => self.free(device, id as usize, false)?,
                Op::FreeRequested { id } => self.free(device, id as usize, true)?,
                // The pool finds out by itself.
                Op::FreeCompleted { .. } => {}
            }
        }
        self.reach(self.script.duration_us());
        self.witness.see(Sight::End, self.rig, &self.books);
        Ok(())
    }

    fn reach(&mut self, time_us: u64) {
        let time_us = self.start_us + time_us;
        self.witness.see(Sight::Time { time_us }, self.rig, &self.books);
        self.rig.reach(time_us);
        self.books.reach(self.rig, time_us);
    }

    fn alloc(&mut self, device: usize, size_bytes: u64, stream: usize) -> Result<()> {
        let bytes = self.script.scaled(size_bytes);
        let lane = &self.rig.lanes[device][stream];
        let outcome = Held::alloc(&self.rig.pool, lane, self.rig.request(device, stream, bytes));
        let charge = self.books.charge(self.rig);
        self.books.largest_stall_us = self.books.largest_stall_us.max(charge.cost_us);
        let seed = (device as u64) << 56 | self.start_us.wrapping_mul(31) ^ self.blocks[device].len() as u64;
        let block = match outcome {
            Ok(held) => {
                let spread = self.rig.spread(device, &held, bytes)?;
                self.books.begin(&spread);
                if charge.is_stitched {
                    self.books.misses += 1
                } else {
                    self.books.hits += 1
                }
                if self.is_checked {
                    if let Some(behind) = &mut self.behind {
                        behind.keep(lane, device, stream)?;
                    }
                    lane.fill(&held, held.whole(), seed).context("a fill was refused")?;
                }
                Some(Standing { held, spread, stream, seed })
            }
            Err(error) => {
                self.books.oom += 1;
                self.books.note(|| error.to_string());
                None
            }
        };
        self.blocks[device].push(block);
        self.witness.see(Sight::Alloc { device, bytes, cost_us: charge.cost_us }, self.rig, &self.books);
        Ok(())
    }

    /// Frees a block; `is_lent`: other streams still use it.
    fn free(&mut self, device: usize, id: usize, is_lent: bool) -> Result<()> {
        let Some(block) = self.blocks[device][id].take() else { return Ok(()) };
        self.books.frees += 1;
        let cost_us = self.end_block(device, block, is_lent)?;
        self.witness.see(Sight::Free { device, cost_us }, self.rig, &self.books);
        Ok(())
    }

    /// Ends a block and says what that cost.
    fn end_block(&mut self, device: usize, mut block: Standing, is_lent: bool) -> Result<f64> {
        let lanes = &self.rig.lanes[device];
        let owner = &lanes[block.stream];
        if self.is_checked {
            owner.verify(&block.held, block.held.whole(), block.seed).context("a verify was refused")?;
        }
        let mut outcome = Ok(());
        if is_lent {
            for user in borrowers(lanes, block.stream) {
                outcome = outcome.and_then(|()| block.held.lend(&self.rig.pool, user));
                if self.is_checked && outcome.is_ok() {
                    user.follow(owner).and_then(|()| user.verify(&block.held, block.held.whole(), block.seed))?;
                }
            }
        }
        self.books.end(&block.spread);
        if let Err(error) = outcome.and(block.held.free(&self.rig.pool).map_err(|(error, _)| error)) {
            self.books.refused += 1;
            self.books.note(|| error.to_string());
        }
        Ok(self.books.charge(self.rig).cost_us)
    }

    /// Frees all that is live, in order of allocation.
    fn clear(&mut self) -> Result<()> {
        for (device, blocks) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
            for block in blocks.into_iter().flatten() {
                self.end_block(device, block, false)?;
            }
        }
        Ok(())
    }
}

/// The bar moves after so many steps.
pub const BAR_STEPS: usize = 1024;

/// Who still uses a block that was freed and not completed: the trace does not say, so the main stream
/// does, or, if that owns the block, all others do.
fn borrowers(lanes: &[Lane], owner: usize) -> &[Lane] {
    if owner == 0 { &lanes[1..] } else { &lanes[..1] }
}

impl Behind {
    fn new(rig: &Rig, lag: Duration) -> Self {
        let now = Instant::now();
        Self { lag, until: rig.lanes.iter().map(|lanes| vec![now; lanes.len()]).collect() }
    }

    /// Queues another lag of nothing where less than half of one is left, so that no queue grows.
    fn keep(&mut self, lane: &Lane, device: usize, stream: usize) -> Result<()> {
        let (now, until) = (Instant::now(), &mut self.until[device][stream]);
        if *until < now + self.lag / 2 {
            lane.delay(u64::try_from(self.lag.as_micros()).unwrap_or(u64::MAX))?;
            *until = now.max(*until) + self.lag;
        }
        Ok(())
    }
}
