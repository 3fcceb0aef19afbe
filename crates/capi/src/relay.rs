//! Passes a shortage on to the caller's function.

use crate::shape::{CShortage, Listener};
use parking_lot::Mutex;
use std::ffi::CString;
use stitchpool_pool::Shortage;

/// Who is asked for help before a request fails; at most one.
#[derive(Default)]
pub(crate) struct Relay {
    listener: Mutex<Option<Listener>>,
}

impl Relay {
    /// Asks this listener from now on.
    pub(crate) fn set(&self, listener: Option<Listener>) {
        *self.listener.lock() = listener;
    }

    /// Whether the listener says that it has freed something.
    pub(crate) fn ask(&self, shortage: &Shortage) -> bool {
        // Copied, so that no lock is held while it runs.
        let Some(listener) = *self.listener.lock() else { return false };
        let text = CString::new(shortage.to_string()).unwrap_or_default();
        listener.call(&CShortage::of(shortage, &text))
    }
}
