//! Clears the addresses of a growable buffer's portion of what cannot serve it. It brings nothing.

use crate::clock::Fence;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::heap::taken::take;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::miss::candidate::fences;
use crate::miss::job::Job;
use crate::miss::portion::Portion;
use crate::unit::units_of;
use stitchpool_driver::{Address, ErrorKind};

impl Engine {
    /// Makes room where a job's portion has what was freed asleep, what is idle and lies elsewhere than it shall, and
    /// mappings whose memory was taken: they go, once the work that used them is done. The CPU waits for that, and
    /// not during a capture.
    pub(crate) fn clear_portion(&self, mapper: &mut Mapper, job: &Job<'_>) -> Result<()> {
        let Some(portion) = job.portion.filter(|_| !job.captured) else { return Ok(()) };
        if portion.sleeps(mapper, job) {
            self.forget_freed(mapper);
        }
        if portion.sleeps(mapper, job) {
            // A graph's arena wakes with what was freed in it.
            return Err(Error::Asleep { what: format!("a part of the growable buffer at {}", Address(portion.chain)) });
        }
        mapper.displace(job, &portion)?;
        mapper.clear_stale(&portion)
    }
}

impl Portion {
    /// Whether a slot of it sleeps that no block is in.
    fn sleeps(&self, mapper: &Mapper, job: &Job<'_>) -> bool {
        let Some(chain) = mapper.chains.get(&self.chain) else { return false };
        let inside = job.heap.inside.lock();
        let mut asleep = self.slots(chain).filter(|slot| matches!(slot, Slot::Asleep { .. }));
        asleep.any(|slot| !inside.has_block(slot.at().0))
    }
}

impl Mapper {
    /// Idle slots whose memory lies elsewhere than it shall become stale.
    fn displace(&mut self, job: &Job<'_>, portion: &Portion) -> Result<()> {
        let mut left = Vec::new();
        {
            let mut inside = job.heap.inside.lock();
            let displaced = portion.displaced(self, &inside)?;
            for (slot, fences) in displaced.iter().zip(fences(&inside, &displaced)) {
                // Another thread may have taken it.
                if take(&mut inside, job.heap.index, slot.at().0, units_of(slot.bytes())).is_some() {
                    left.push((slot.at(), fences));
                }
            }
        }
        for (at, fences) in left {
            tracing::debug!(%at, "idle memory lies elsewhere than it shall: it goes");
            self.make_stale(at, fences);
        }
        Ok(())
    }

    /// Old mappings go, once the work that used them is done.
    fn clear_stale(&mut self, portion: &Portion) -> Result<()> {
        let Some(chain) = self.chains.get(&portion.chain) else { return Ok(()) };
        let stale: Vec<&[Fence]> = portion.slots(chain).filter_map(Slot::fences).collect();
        if stale.is_empty() {
            return Ok(());
        }
        let fences: Vec<Fence> = stale.into_iter().flatten().cloned().collect();
        self.poll_clocks();
        for fence in fences {
            if !fence.is_passed() {
                self.counts.cpu_waits += 1;
                let finished = fence.clock.finish(fence.epoch, self.settings.wait_max, &self.origin);
                finished.map_err(|error| match error.kind {
                    ErrorKind::Capture => {
                        Error::Capturing { serial: fence.clock.serial(), operation: "a wait for what it has used" }
                    }
                    _ => error.into(),
                })?;
            }
        }
        self.retire_stale(usize::MAX)?;
        Ok(())
    }
}
