//! How wide this processor looks: which lanes it scans and edits rows with.

#[cfg(target_arch = "x86_64")]
use crate::heap::eights::Eights;
use crate::heap::lanes::{Fours, Task};

/// Which lanes the processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    #[cfg(target_arch = "x86_64")]
    eights: Option<Eights>,
}

impl Width {
    /// Does the work with the widest lanes that there are.
    #[inline(always)]
    pub(crate) fn play<T: Task>(self, task: T) -> T::Output {
        #[cfg(target_arch = "x86_64")]
        if let Some(eights) = self.eights {
            return eights.play(task);
        }
        task.run(Fours)
    }
}

impl Default for Width {
    fn default() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            eights: Eights::find(),
        }
    }
}
