//! Records that grow: a struct of the header whose first field is its size, so that a program built
//! with an older or newer header still means what it says.

use crate::place::crooked;
use crate::refusal::{Refusal, Result};
use crate::status::Status;
use std::mem::MaybeUninit;

/// A struct whose fields may become more.
///
/// # Safety
/// - Its first field is its size as a `usize`; it has no padding; every pattern of bits is a value of
///   it; no field but the first is looked at before it was checked.
pub(crate) unsafe trait Record: Copy {
    /// What the header calls it.
    const NAME: &'static str;
    /// Its size in the first version of the header.
    const FIRST_BYTES: usize;
}

const SIZE_BYTES: usize = size_of::<usize>();

/// Reads a record: fields that the caller does not have are those of `fallback`.
///
/// # Safety
/// - `at` is null, or begins with a `usize` that says how many bytes can be read there.
pub(crate) unsafe fn read<R: Record>(at: *const R, fallback: R) -> Result<R> {
    // SAFETY: the caller answers for `at`.
    let said = unsafe { said_bytes(at) }?;
    let known = said.min(size_of::<R>());
    // SAFETY: `said_bytes` found `at` neither null nor crooked; so many bytes can be read there.
    let beyond = unsafe { std::slice::from_raw_parts(at.cast::<u8>().add(known), said - known) };
    if beyond.iter().any(|byte| *byte != 0) {
        let words = format!(
            "{} has fields set that this library does not know: it knows {known} of its {said} bytes; \
             install the library that the header came with",
            R::NAME
        );
        return Err(Refusal::new(Status::InvalidArgument, words));
    }
    let mut record = MaybeUninit::new(fallback);
    // SAFETY: `known` bytes can be read at `at`, and a record is as long at least.
    unsafe { record.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(at.cast::<u8>(), known) };
    // SAFETY: it was a record before, and `Record` says that any bits are one.
    Ok(unsafe { record.assume_init() })
}

/// A place for a record.
pub(crate) struct RecordPlace<R> {
    at: *mut R,
    said: usize,
}

impl<R: Record> RecordPlace<R> {
    /// # Safety
    /// - `at` is null, or begins with a `usize` that says how many bytes can be written there until the
    ///   call returns.
    pub(crate) unsafe fn of(at: *mut R) -> Result<Self> {
        // SAFETY: the caller answers for `at`.
        let said = unsafe { said_bytes(at) }?;
        Ok(Self { at, said })
    }

    /// As [`RecordPlace::of`], where the caller need not want the result.
    ///
    /// # Safety
    /// - As for [`RecordPlace::of`].
    pub(crate) unsafe fn wanted(at: *mut R) -> Result<Option<Self>> {
        // SAFETY: the caller answers for `at`.
        if at.is_null() { Ok(None) } else { unsafe { Self::of(at) }.map(Some) }
    }

    /// Writes what fits; fields that only the caller knows become 0, and the size stays as he said.
    pub(crate) fn put(self, record: R) {
        let known = self.said.min(size_of::<R>());
        let (from, to) = ((&raw const record).cast::<u8>(), self.at.cast::<u8>());
        // SAFETY: `of` demands that `said` bytes can be written at `at`; `known` is no more, and at least
        // as much as the size itself.
        unsafe {
            to.add(SIZE_BYTES).copy_from_nonoverlapping(from.add(SIZE_BYTES), known - SIZE_BYTES);
            to.add(known).write_bytes(0, self.said - known);
        }
    }
}

/// No record is longer; a greater size is one that was never set.
const RECORD_BYTES_MAX: usize = 4096;

/// How long the caller says that his record is.
///
/// # Safety
/// - `at` is null, or begins with a `usize`.
unsafe fn said_bytes<R: Record>(at: *const R) -> Result<usize> {
    if at.is_null() {
        return Err(Refusal::null(R::NAME));
    }
    if !at.is_aligned() {
        return Err(crooked::<R>(R::NAME));
    }
    // SAFETY: not null, aligned, and the caller answers for the first field.
    let said = unsafe { at.cast::<usize>().read() };
    if (R::FIRST_BYTES..=RECORD_BYTES_MAX).contains(&said) {
        return Ok(said);
    }
    let words = format!(
        "{}.struct_size is {said}: set it to sizeof({}), which is at least {}",
        R::NAME,
        R::NAME,
        R::FIRST_BYTES
    );
    Err(Refusal::new(Status::InvalidArgument, words))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        struct_size: usize,
        first: u64,
        later: u64,
    }

    // SAFETY: three words.
    unsafe impl Record for Grown {
        const NAME: &'static str = "grown";
        const FIRST_BYTES: usize = 16;
    }

    const FALLBACK: Grown = Grown { struct_size: 24, first: 1, later: 2 };

    #[test]
    fn a_shorter_record_leaves_the_later_fields_as_they_are_by_rule() {
        let theirs = [16_u64, 7];
        // SAFETY: 16 bytes can be read there.
        let read = unsafe { read(theirs.as_ptr().cast(), FALLBACK) }.unwrap();
        assert_eq!((read.first, read.later), (7, 2));
    }

    #[test]
    fn a_longer_record_is_taken_as_long_as_what_is_unknown_is_zero() {
        let mut theirs = [32_u64, 7, 8, 0];
        // SAFETY: 32 bytes can be read there.
        let whole = unsafe { read(theirs.as_ptr().cast(), FALLBACK) }.unwrap();
        assert_eq!((whole.first, whole.later), (7, 8));
        theirs[3] = 1;
        // SAFETY: as before.
        let refusal = unsafe { read(theirs.as_ptr().cast(), FALLBACK) }.unwrap_err();
        assert_eq!(refusal.status, Status::InvalidArgument);
        assert!(refusal.words.contains("24 of its 32 bytes"), "{}", refusal.words);
    }

    #[test]
    fn sizes_that_were_never_set_and_null_are_refused() {
        for said in [0_u64, 15, 4097, u64::MAX] {
            let theirs = [said, 0, 0];
            // SAFETY: the size is refused before more than it is read.
            let refusal = unsafe { read(theirs.as_ptr().cast(), FALLBACK) }.unwrap_err();
            assert!(refusal.words.contains(&said.to_string()), "{}", refusal.words);
        }
        // SAFETY: null is looked at only as a number.
        assert_eq!(unsafe { read(std::ptr::null(), FALLBACK) }.unwrap_err().status, Status::NullPointer);
    }

    #[test]
    fn nothing_is_written_beyond_what_the_caller_has() {
        let mut theirs = [16_u64, 0, 99];
        // SAFETY: 16 bytes can be written there.
        unsafe { RecordPlace::of(theirs.as_mut_ptr().cast::<Grown>()) }.unwrap().put(FALLBACK);
        assert_eq!(theirs, [16, 1, 99]);
        let mut longer = [32_u64, 0, 0, 99];
        // SAFETY: 32 bytes can be written there.
        unsafe { RecordPlace::of(longer.as_mut_ptr().cast::<Grown>()) }.unwrap().put(FALLBACK);
        assert_eq!(longer, [32, 1, 2, 0]);
    }
}
