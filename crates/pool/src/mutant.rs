//! Faults that tests plant in the policy, to prove that the other tests would see them. Without the
//! feature `mutants` every question here is a constant `false`.

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mutant {
    /// Another stream's memory counts as ready although the GPU is not past it.
    SkipReadyCheck = 1,
    /// Uses on other streams are not remembered.
    SkipRecordUse,
    /// Stale mappings are taken down at once.
    UnmapEarly,
    /// The event is recorded before the epoch is closed, so that a free can slip in between.
    RecordBeforeClosing,
    /// A handle forgets at its new place what it must wait for.
    DropCarried,
}

#[cfg(feature = "mutants")]
mod planted {
    use std::sync::atomic::{AtomicU8, Ordering};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants a fault in every pool of this process, or takes the last one out.
    pub fn plant(mutant: Option<super::Mutant>) {
        PLANTED.store(mutant.map_or(0, |mutant| mutant as u8), Ordering::SeqCst);
    }

    pub(crate) fn is_planted(mutant: super::Mutant) -> bool {
        PLANTED.load(Ordering::Relaxed) == mutant as u8
    }
}

#[cfg(feature = "mutants")]
pub use planted::plant;

#[cfg(feature = "mutants")]
pub(crate) use planted::is_planted;

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_planted(_: Mutant) -> bool {
    false
}
