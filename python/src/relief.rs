//! Asks a Python function for help when memory is short.

use crate::figures;
use parking_lot::Mutex;
use pyo3::prelude::*;
use stitchpool_pool::Shortage;

/// Who is asked; at most one.
#[derive(Default)]
pub(crate) struct Relief {
    function: Mutex<Option<Py<PyAny>>>,
}

impl Relief {
    /// Asks this function from now on, instead of the one before.
    pub(crate) fn set(&self, function: Option<Py<PyAny>>) {
        // Dropped after the lock is free: what goes with it may be any object.
        let _before = std::mem::replace(&mut *self.function.lock(), function);
    }

    /// Whether the function says that it has freed something. One that raises has not, and what it raised
    /// goes where Python puts what nobody can catch.
    pub(crate) fn ask(&self, shortage: &Shortage) -> bool {
        let answer = Python::try_attach(|py| {
            let function = self.function.lock().as_ref().map(|function| function.clone_ref(py))?;
            let asked = figures::shortage(py, shortage).and_then(|shortage| function.call1(py, (shortage,)));
            let freed = asked.and_then(|answer| answer.is_truthy(py));
            Some(freed.unwrap_or_else(|error| {
                error.write_unraisable(py, Some(function.bind(py)));
                false
            }))
        });
        answer.flatten().unwrap_or(false)
    }

    /// Shows the collector of cycles what it holds.
    pub(crate) fn visit(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        match self.function.try_lock() {
            Some(function) => visit.call(&*function),
            None => Ok(()),
        }
    }
}
