//! Passes a shortage on to the caller's function.

use crate::shape::{CShortage, Relief};
use parking_lot::Mutex;
use std::ffi::CString;
use stitchpool_pool::Shortage;

/// Who is asked for help before a request fails; at most one.
#[derive(Default)]
pub(crate) struct Relay {
    relief: Mutex<Option<Relief>>,
}

impl Relay {
    /// Asks this one from now on.
    pub(crate) fn set(&self, relief: Option<Relief>) {
        *self.relief.lock() = relief;
    }

    /// Whether it says that it has freed something.
    pub(crate) fn ask(&self, shortage: &Shortage) -> bool {
        // Copied, so that no lock is held while it runs.
        let Some(relief) = *self.relief.lock() else { return false };
        let text = CString::new(shortage.to_string()).unwrap_or_default();
        relief.call(&CShortage::of(shortage, &text))
    }
}
