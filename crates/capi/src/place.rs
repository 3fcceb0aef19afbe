//! A place of the caller's that a result goes to. It is looked at before any work is done, so that
//! nothing is done whose result nobody could hear.

use crate::refusal::{Refusal, Result};
use crate::status::Status;
use std::ptr::NonNull;

/// A place for one `T`.
pub(crate) struct Place<T>(NonNull<T>);

/// A place for several.
pub(crate) struct Row<'a, T> {
    first: *mut T,
    capacity: usize,
    count: Place<usize>,
    name: &'a str,
}

impl<T> Place<T> {
    /// # Safety
    /// - `at` is null, or the caller may write a `T` there until the call returns.
    pub(crate) unsafe fn of(at: *mut T, name: &str) -> Result<Self> {
        let at = NonNull::new(at).ok_or_else(|| Refusal::null(name))?;
        if at.is_aligned() { Ok(Self(at)) } else { Err(crooked::<T>(name)) }
    }

    /// As [`Place::of`], without words.
    ///
    /// # Safety
    /// - As for [`Place::of`].
    #[inline(always)]
    pub(crate) unsafe fn at(at: *mut T) -> Option<Self> {
        NonNull::new(at).filter(|at| at.is_aligned()).map(Self)
    }

    /// As [`Place::of`], where the caller need not want the result.
    ///
    /// # Safety
    /// - As for [`Place::of`].
    pub(crate) unsafe fn wanted(at: *mut T, name: &str) -> Result<Option<Self>> {
        // SAFETY: the caller answers for `at`.
        if at.is_null() { Ok(None) } else { unsafe { Self::of(at, name) }.map(Some) }
    }

    pub(crate) fn put(self, value: T) {
        // SAFETY: `of` demands that the caller may write a `T` there, and found it aligned.
        unsafe { self.0.as_ptr().write(value) };
    }
}

impl<'a, T: Copy> Row<'a, T> {
    /// # Safety
    /// - The caller may write `capacity` items from `first` on (none if that is 0), and one number at
    ///   `count` if that is not null, until the call returns.
    pub(crate) unsafe fn of(first: *mut T, capacity: usize, count: *mut usize, name: &'a str) -> Result<Self> {
        // SAFETY: the caller answers for `count`.
        let count = unsafe { Place::of(count, "count") }?;
        if capacity > 0 && first.is_null() {
            return Err(Refusal::null(name));
        }
        if capacity > 0 && !first.is_aligned() {
            return Err(crooked::<T>(name));
        }
        Ok(Self { first, capacity, count, name })
    }

    /// Writes as many as there is room for, and how many there are.
    pub(crate) fn put(self, items: &[T]) -> Result<()> {
        let fitting = items.len().min(self.capacity);
        if fitting > 0 {
            // SAFETY: `of` demands room for `capacity` items from `first` on, and found it aligned.
            unsafe { self.first.copy_from_nonoverlapping(items.as_ptr(), fitting) };
        }
        self.count.put(items.len());
        if fitting == items.len() {
            return Ok(());
        }
        let words =
            format!("`{}` has room for {}, there are {}: give more room", self.name, self.capacity, items.len());
        Err(Refusal::new(Status::TooSmall, words))
    }
}

impl Row<'_, u8> {
    /// Writes a text and the zero that ends it; a text that is cut ends with a zero too.
    pub(crate) fn put_text(self, text: &str) -> Result<()> {
        let (first, capacity) = (self.first, self.capacity);
        let whole: Vec<u8> = text.bytes().chain([0]).collect();
        let put = self.put(&whole);
        if put.is_err() && capacity > 0 {
            // SAFETY: `of` demands room for `capacity` bytes from `first` on.
            unsafe { first.add(capacity - 1).write(0) };
        }
        put
    }
}

/// The items of the caller's that begin at `first`.
///
/// # Safety
/// - `count` is 0, or `first` is null, or `count` items can be read there until the call returns.
pub(crate) unsafe fn items<'a, T: Copy>(first: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Refusal::null(name));
    }
    if !first.is_aligned() {
        return Err(crooked::<T>(name));
    }
    if count > ITEMS_MAX {
        let words = format!("`{name}` has {count} items, the limit is {ITEMS_MAX}");
        return Err(Refusal::new(Status::InvalidArgument, words));
    }
    // SAFETY: not null, aligned, and the caller answers for the rest.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// No list of devices or pieces is longer.
const ITEMS_MAX: usize = 1 << 20;

pub(crate) fn crooked<T>(name: &str) -> Refusal {
    let words = format!("`{name}` does not begin at a multiple of {} bytes", align_of::<T>());
    Refusal::new(Status::InvalidArgument, words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_row_takes_what_fits_and_says_how_many_there_are() {
        let (mut room, mut count) = ([9_u64; 3], 0);
        let mut put = |capacity, items: &[u64]| {
            // SAFETY: there is room for three.
            let row = unsafe { Row::of(room.as_mut_ptr(), capacity, &raw mut count, "room") }.unwrap();
            (row.put(items).map_err(|refusal| refusal.status), room, count)
        };
        assert_eq!(put(3, &[1, 2]), (Ok(()), [1, 2, 9], 2));
        assert_eq!(put(1, &[7, 8]), (Err(Status::TooSmall), [7, 2, 9], 2));
        assert_eq!(put(0, &[]), (Ok(()), [7, 2, 9], 0));
    }

    #[test]
    fn a_text_always_ends_with_a_zero() {
        let (mut room, mut count) = ([9_u8; 4], 0);
        let mut put = |capacity, text: &str| {
            // SAFETY: there is room for four.
            let row = unsafe { Row::of(room.as_mut_ptr(), capacity, &raw mut count, "room") }.unwrap();
            (row.put_text(text).is_ok(), room, count)
        };
        assert_eq!(put(4, "abc"), (true, *b"abc\0", 4));
        assert_eq!(put(3, "xyz"), (false, *b"xy\0\0", 4));
        assert_eq!(put(0, "q"), (false, *b"xy\0\0", 2));
    }

    #[test]
    fn null_and_crooked_pointers_are_refused() {
        let mut numbers = [0_u64; 2];
        let crooked = numbers.as_mut_ptr().cast::<u8>().wrapping_add(1).cast::<u64>();
        // SAFETY: refused pointers are not followed.
        let (null, odd) = unsafe { (Place::<u64>::of(std::ptr::null_mut(), "n"), Place::of(crooked, "n")) };
        assert_eq!(null.err().unwrap().status, Status::NullPointer);
        assert_eq!(odd.err().unwrap().status, Status::InvalidArgument);
        // SAFETY: as before; a count of 0 reads nothing.
        unsafe {
            assert_eq!(items::<u64>(std::ptr::null(), 0, "n").unwrap(), &[] as &[u64]);
            assert_eq!(items::<u64>(std::ptr::null(), 1, "n").unwrap_err().status, Status::NullPointer);
            assert_eq!(items(crooked, 1, "n").unwrap_err().status, Status::InvalidArgument);
            assert_eq!(items(numbers.as_ptr(), usize::MAX, "n").unwrap_err().status, Status::InvalidArgument);
        }
    }
}
