//! Pieces of memory held for nothing, so that the way down stays open at the system's limit on pieces:
//! there even unmapping needs one more for a moment.

use super::span::Span;
use rustix::io::{Errno, Result};
use rustix::mm::MprotectFlags;

/// A few idle granules of addresses, every second one readable: each of them is a piece.
#[derive(Debug)]
pub(super) struct Ballast {
    whole: Span,
    granule_bytes: u64,
}

impl Ballast {
    pub(super) fn take() -> Result<Self> {
        let granule_bytes = rustix::param::page_size() as u64;
        let whole = Span::reserve((2 * READABLE + 3) * granule_bytes, granule_bytes)?;
        let ballast = Self { whole, granule_bytes };
        ballast.load()?;
        Ok(ballast)
    }

    /// Tries `change`; where the system has no piece left for it, once more with the ballast out.
    pub(super) fn spare<T>(&self, change: impl Fn() -> Result<T>) -> Result<T> {
        match change() {
            Err(Errno::NOMEM) => {}
            done => return done,
        }
        self.unload()?;
        let done = change();
        if let Err(error) = self.load() {
            // The next call in need finds less; this one is served.
            tracing::debug!(%error, "the ballast is not full again");
        }
        done
    }

    /// Makes every second granule readable. The first and last stay as they are, so that no readable
    /// one is joined with a neighbour's.
    fn load(&self) -> Result<()> {
        (0..=READABLE).try_for_each(|index| {
            let at = self.whole.at + (2 * index + 1) * self.granule_bytes;
            // SAFETY: the ballast is a reservation that nobody names, and `index` is within it.
            unsafe { Span { at, bytes: self.granule_bytes }.protect(MprotectFlags::READ) }
        })
    }

    /// Makes one piece of all. It begins and ends where pieces do, so it needs no new one.
    fn unload(&self) -> Result<()> {
        let inner = Span { at: self.whole.at + self.granule_bytes, bytes: self.whole.bytes - 2 * self.granule_bytes };
        // SAFETY: as in `load`.
        unsafe { inner.protect(MprotectFlags::empty()) }
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // SAFETY: the ballast is a reservation that nobody names.
        if let Err(error) = unsafe { self.whole.give_back() } {
            tracing::warn!(%error, "the ballast's addresses did not go back to the system");
        }
    }
}

/// One more than this many granules are readable, which makes about twice as many pieces: enough for
/// a run of calls that each leave two more.
const READABLE: u64 = 8;
