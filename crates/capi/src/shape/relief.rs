//! The caller's function that is asked for help when memory is short.

use crate::record::Record;
use std::ffi::{CStr, c_char, c_void};
use stitchpool_pool::Shortage;

/// `stitchpool_relief`: not 0 if it has freed something.
pub type CRelief = unsafe extern "C" fn(shortage: *const CShortage, user_data: *mut c_void) -> i32;

/// `stitchpool_shortage`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CShortage {
    pub struct_size: usize,
    pub asked_bytes: u64,
    pub missing_bytes: u64,
    pub text: *const c_char,
}

// SAFETY: the size, then numbers and a pointer, without padding.
unsafe impl Record for CShortage {
    const NAME: &'static str = "stitchpool_shortage";
    const FIRST_BYTES: usize = 32;
}

impl CShortage {
    /// What lives as long as `text`.
    pub(crate) fn of(shortage: &Shortage, text: &CStr) -> Self {
        let (asked_bytes, missing_bytes) = (shortage.asked_bytes, shortage.missing_bytes);
        Self { struct_size: size_of::<Self>(), asked_bytes, missing_bytes, text: text.as_ptr() }
    }
}

/// A function of the caller's with what he wants it to be given.
#[derive(Clone, Copy)]
pub(crate) struct Relief {
    relief: CRelief,
    user_data: *mut c_void,
}

// SAFETY: `Relief::new` demands that the function may run on any thread with this pointer, which
// nobody follows here.
unsafe impl Send for Relief {}

impl Relief {
    /// # Safety
    /// - `relief` may be called with `user_data` on any thread, by several at once, until it was replaced
    ///   and the last such call has returned; it does not unwind.
    pub(crate) const unsafe fn new(relief: CRelief, user_data: *mut c_void) -> Self {
        Self { relief, user_data }
    }

    pub(crate) fn call(self, shortage: &CShortage) -> bool {
        // SAFETY: `new` demands that it may be called so; `shortage` lives until it returns.
        unsafe { (self.relief)(shortage, self.user_data) != 0 }
    }
}
