//! An object that a pool has made for itself, and that ends with it. Knows nothing of its class but that it closes.

use crate::refused::Result;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// The object, once there is one.
#[derive(Default)]
pub(crate) struct Companion {
    object: Mutex<Option<Py<PyAny>>>,
}

impl Companion {
    pub(crate) fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.object.lock().as_ref().map(|object| object.bind(py).clone())
    }

    pub(crate) fn set(&self, object: Py<PyAny>) {
        // Dropped after the lock is free: what goes with it may be any object.
        let _before = self.object.lock().replace(object);
    }

    /// Closes it; without one there is nothing to do.
    pub(crate) fn end(&self, py: Python<'_>) -> Result<()> {
        let object = self.object.lock().take();
        object.map_or(Ok(()), |object| Ok(object.call_method0(py, "close").map(drop)?))
    }

    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        match self.object.try_lock() {
            Some(object) => visit.call(&*object),
            None => Ok(()),
        }
    }

    pub(crate) fn forget(&self) {
        let _object = self.object.lock().take();
    }
}
