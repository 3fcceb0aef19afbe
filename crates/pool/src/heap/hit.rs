//! How a heap's hits are compiled: once for every processor of the kind, once for those that have more.

#[cfg(target_arch = "x86_64")]
use crate::heap::eights::Eights;
use crate::heap::inside::{Freed, Inside};
use crate::heap::lanes::Fours;

/// Which of them the processor takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    #[cfg(target_arch = "x86_64")]
    eights: Option<Eights>,
}

impl Default for Hit {
    fn default() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            eights: Eights::find(),
        }
    }
}

impl Inside {
    /// Finds the lowest place for a block, and so what can be promised next.
    #[inline(never)]
    pub(super) fn find(&mut self, units: u32) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(eights) = self.hit.eights {
            // SAFETY: there are eights, so the processor has what they take.
            return unsafe { find_in_eights(self, eights, units) };
        }
        self.find_with(Fours, units)
    }

    /// Frees a block that is no promise.
    #[inline(never)]
    pub(super) fn free_entered(&mut self, address: u64, epoch: u64) -> Freed {
        #[cfg(target_arch = "x86_64")]
        if let Some(eights) = self.hit.eights {
            // SAFETY: there are eights, so the processor has what they take.
            return unsafe { free_in_eights(self, eights, address, epoch) };
        }
        self.free_with(Fours, address, epoch)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn find_in_eights(inside: &mut Inside, eights: Eights, units: u32) -> bool {
    inside.find_with(eights, units)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn free_in_eights(inside: &mut Inside, eights: Eights, address: u64, epoch: u64) -> Freed {
    inside.free_with(eights, address, epoch)
}
