//! What the library says of itself and of refusals. These functions cannot refuse.

use crate::refusal::last_words;
use crate::status::Status;
use std::ffi::{CStr, c_char};

/// Digits of one part of a version number.
const PART: u32 = 1000;

/// The library's version: major · 1,000,000 + minor · 1,000 + patch.
#[unsafe(no_mangle)]
pub extern "C" fn stitchpool_version() -> u32 {
    const fn number(text: &str) -> u32 {
        let (mut number, mut index) = (0, 0);
        while index < text.len() {
            number = number * 10 + (text.as_bytes()[index] - b'0') as u32;
            index += 1;
        }
        number
    }
    const VERSION: u32 = (number(env!("CARGO_PKG_VERSION_MAJOR")) * PART + number(env!("CARGO_PKG_VERSION_MINOR")))
        * PART
        + number(env!("CARGO_PKG_VERSION_PATCH"));
    VERSION
}

/// The words of the calling thread's latest refusal, valid until its next one; empty if there was none.
/// Where the thread is ending they say only what the status means.
#[unsafe(no_mangle)]
pub extern "C" fn stitchpool_last_error() -> *const c_char {
    last_words()
}

/// A status as the header spells it.
#[unsafe(no_mangle)]
pub extern "C" fn stitchpool_status_name(status: i32) -> *const c_char {
    const UNKNOWN: &CStr = c"an unknown status";
    let found = usize::try_from(status).ok().and_then(|index| Status::ALL.get(index));
    found.map_or(UNKNOWN, |(_, name)| *name).as_ptr()
}
