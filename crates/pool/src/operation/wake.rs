//! Resumes blocks: memory is mapped at their addresses again and filled. A transaction: until the commit the
//! backups stay, and a refusal lets all of it sleep on.

use crate::arena::Wakefulness;
use crate::engine::Engine;
use crate::error::Result;
use crate::operation::incoming::Supply;
use crate::operation::risen::commit;
use crate::scope::{Ground, Scope};

/// What a resume has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resumed {
    /// Nothing was asleep, and nothing was done.
    pub already: bool,
    /// Memory that was taken, in bytes.
    pub taken_bytes: u64,
    /// Content that was brought back, in bytes.
    pub restored_bytes: u64,
}

impl Engine {
    /// Resumes what is asleep of a scope.
    pub(crate) fn resume(&self, scope: Scope) -> Result<Resumed> {
        let Some(ground) = self.close(scope, Wakefulness::Asleep, "resume")? else {
            return Ok(Resumed { already: true, ..Resumed::default() });
        };
        let outcome = self.wake(&ground);
        self.reopen(&ground, outcome.is_ok().then_some(Wakefulness::Awake));
        if outcome.is_ok() {
            self.after_return(&self.segments_on(&[&ground]));
        }
        outcome
    }

    fn wake(&self, ground: &Ground) -> Result<Resumed> {
        let mut mapper = self.mapper.lock();
        self.refuse_captures(&mut mapper, "resume")?;
        // What was freed asleep needs no memory: it shall be known as free.
        self.seal_all(&mapper);
        mapper.poll_clocks();
        self.forget_freed(&mut mapper);
        let sleepers = self.sleepers(&mapper, ground);
        let mut supply = Supply::default();
        let mut risen = Vec::with_capacity(sleepers.len());
        let roused = self.rouse(&mut mapper, &sleepers, &mut supply, &mut risen);
        let mut filled = Vec::new();
        match roused.and_then(|restored| Ok(restored + self.fill_unfilled(&mut mapper, ground, &mut filled)?)) {
            Ok(restored_bytes) => {
                let taken_bytes = commit(&mut mapper, risen, filled);
                tracing::info!(ground.title, taken_bytes, restored_bytes, "resumed");
                Ok(Resumed { already: false, taken_bytes, restored_bytes })
            }
            Err(error) => {
                self.lay_back(&mut mapper, risen);
                Err(self.resume_refusal(&mapper, &sleepers, &supply, error))
            }
        }
    }
}
