//! How wide this processor looks: which lanes it scans and edits rows with.

#[cfg(target_arch = "x86_64")]
use crate::heap::eights::Eights;
use crate::heap::lanes::{Fours, Task};
#[cfg(target_arch = "x86_64")]
use crate::heap::sixteens::Sixteens;

/// The widest lanes that the processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    #[cfg(target_arch = "x86_64")]
    Sixteens(Sixteens),
    #[cfg(target_arch = "x86_64")]
    Eights(Eights),
    Fours,
}

impl Width {
    /// Does the work with these lanes.
    #[inline(always)]
    pub(crate) fn play<T: Task>(self, task: T) -> T::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Sixteens(sixteens) => sixteens.play(task),
            #[cfg(target_arch = "x86_64")]
            Self::Eights(eights) => eights.play(task),
            Self::Fours => task.run(Fours),
        }
    }

    /// All that the processor has, the widest first.
    fn all() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let wide = Sixteens::find().map(Self::Sixteens).into_iter().chain(Eights::find().map(Self::Eights));
        #[cfg(not(target_arch = "x86_64"))]
        let wide = std::iter::empty();
        wide.chain([Self::Fours])
    }

    /// One that the processor has, whatever the number; all of them in turn.
    #[cfg(test)]
    pub(crate) fn any(number: usize) -> Self {
        Self::all().nth(number % Self::all().count()).unwrap_or(Self::Fours)
    }
}

impl Default for Width {
    fn default() -> Self {
        Self::all().next().unwrap_or(Self::Fours)
    }
}
