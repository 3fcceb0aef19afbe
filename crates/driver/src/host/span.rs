//! Ranges of this process's addresses as the system sees them. It trusts its caller's ledger.

use rustix::fd::BorrowedFd;
use rustix::io::Result;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::ptr;

/// A range of addresses that the ledger knows to be inside a reservation, or to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

impl Span {
    /// Takes a range with nothing behind it, at a multiple of `alignment` (a power of two).
    pub(super) fn reserve(bytes: u64, alignment: u64) -> Result<Self> {
        let slack_bytes = alignment.saturating_sub(rustix::param::page_size() as u64);
        let wide_bytes = bytes.checked_add(slack_bytes).ok_or(rustix::io::Errno::NOMEM)?;
        // SAFETY: a null hint without FIXED takes addresses that nobody has.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), wide_bytes as usize, ProtFlags::empty(), IDLE)? } as u64;
        let at = start.next_multiple_of(alignment);
        let head = Self { at: start, bytes: at - start };
        let tail = Self { at: at + bytes, bytes: slack_bytes - head.bytes };
        let whole = Self { at: start, bytes: wide_bytes };
        let without_head = Self { at, bytes: bytes + tail.bytes };
        for (spare, left) in [(head, whole), (tail, without_head)] {
            // SAFETY: the whole range was taken just now, and nobody knows of it.
            if let Err(error) = unsafe { spare.give_back() } {
                // SAFETY: `left` is what is still taken of it.
                let _ = unsafe { left.give_back() };
                return Err(error);
            }
        }
        Ok(Self { at, bytes })
    }

    /// Gives the addresses back to the system.
    ///
    /// # Safety
    /// - The span is a reservation of this driver, or a part of one that was never given out.
    pub(super) unsafe fn give_back(self) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller owns the whole span, and nobody names it any more.
        unsafe { munmap(self.start(), self.bytes as usize) }
    }

    /// Puts a run of `file` behind the span, closed to everybody.
    ///
    /// # Safety
    /// - The span lies in a live reservation, and nothing is mapped there.
    pub(super) unsafe fn back(self, file: BorrowedFd<'_>, offset: u64) -> Result<()> {
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: FIXED replaces only idle addresses of a reservation, by the caller's word.
        unsafe { mmap(self.start(), self.bytes as usize, ProtFlags::empty(), flags, file, offset) }.map(drop)
    }

    /// Puts nothing behind the span again.
    ///
    /// # Safety
    /// - The span lies in a live reservation.
    pub(super) unsafe fn clear(self) -> Result<()> {
        let flags = IDLE | MapFlags::FIXED;
        // SAFETY: FIXED replaces only addresses of a reservation, by the caller's word.
        unsafe { mmap_anonymous(self.start(), self.bytes as usize, ProtFlags::empty(), flags) }.map(drop)
    }

    /// Opens or closes the span to this process.
    ///
    /// # Safety
    /// - The span is a run of mappings of a live reservation.
    pub(super) unsafe fn protect(self, flags: MprotectFlags) -> Result<()> {
        // SAFETY: the span is ours by the caller's word, so no foreign memory changes its rights.
        unsafe { mprotect(self.start(), self.bytes as usize, flags) }
    }

    pub(super) const fn end(self) -> u64 {
        self.at + self.bytes
    }

    /// Whether the two share an address.
    pub(super) const fn meets(self, other: Self) -> bool {
        self.at < other.end() && other.at < self.end()
    }

    const fn start(self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.at as usize)
    }
}

const IDLE: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);
