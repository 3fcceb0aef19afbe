//! Python functions that hear of memory before it leaves its addresses, and after it came back.

use crate::figures;
use crate::held::{Held, closes_with_its_block};
use crate::pool::Pool;
use crate::refused::Result;
use crate::scope::scope_of;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Arc;
use stitchpool_pool::{Error, Interest, ListenerId, Scope, Segment};

/// Its functions are called until it is closed, or nobody has it any more.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Listener {
    held: Held<ListenerId>,
    ears: Arc<Ears>,
}

/// The functions. The pool has them too, until nobody listens.
struct Ears {
    before: Mutex<Option<Py<PyAny>>>,
    after: Mutex<Option<Py<PyAny>>>,
}

impl Listener {
    pub(crate) fn new(
        pool: &Bound<'_, Pool>,
        before: Option<Py<PyAny>>,
        after: Option<Py<PyAny>>,
        of: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let scope = scope_of(pool.get(), of)?;
        let ears = Arc::new(Ears { before: Mutex::new(before), after: Mutex::new(after) });
        let listening = ears.clone();
        let held = Held::make(pool, |pool| {
            let interest = match scope {
                Scope::All => Interest::Pool,
                Scope::Arena(arena) => Interest::Arena(arena),
                Scope::Range { address, bytes } => Interest::Range { address, bytes },
                Scope::Block(address) => {
                    let block = pool.block_holding(address).filter(|block| block.address == address);
                    let unknown = || Error::UnknownAddress { address, hint: "it was freed already".into() };
                    Interest::Range { address, bytes: block.ok_or_else(unknown)?.bytes }
                }
            };
            pool.listen(listening, interest)
        })?;
        Ok(Self { held, ears })
    }

    fn stop(&self, py: Python<'_>) -> Result<()> {
        let told = self.held.with_pool(py, |pool, id| pool.unlisten(*id));
        self.ears.clear();
        told?;
        self.held.end(py)
    }
}

impl Ears {
    fn clear(&self) {
        // Dropped after the locks are free: what goes with them may be any object.
        let _before = self.before.lock().take();
        let _after = self.after.lock().take();
    }
}

/// Calls a function with segments, if there is one.
fn tell(py: Python<'_>, function: &Mutex<Option<Py<PyAny>>>, segments: &[Segment]) -> PyResult<()> {
    let Some(function) = function.lock().as_ref().map(|function| function.clone_ref(py)) else { return Ok(()) };
    let segments = segments.iter().map(|segment| figures::segment(py, segment)).collect::<PyResult<Vec<_>>>()?;
    function.call1(py, (PyList::new(py, segments)?,)).map(drop)
}

impl stitchpool_pool::Listener for Ears {
    fn before_leave(&self, segments: &[Segment]) -> std::result::Result<(), String> {
        let told = Python::try_attach(|py| tell(py, &self.before, segments).map_err(|error| error.to_string()));
        told.unwrap_or_else(|| Err("the interpreter is ending".into()))
    }

    fn after_return(&self, segments: &[Segment]) {
        let _ = Python::try_attach(|py| {
            if let Err(error) = tell(py, &self.after, segments) {
                error.write_unraisable(py, None);
            }
        });
    }
}

closes_with_its_block!(Listener);

#[pymethods]
impl Listener {
    fn close(&self, py: Python<'_>) -> Result<()> {
        if self.held.is_over() { Ok(()) } else { self.stop(py) }
    }

    fn __repr__(&self) -> String {
        let state = if self.held.is_over() { " closed" } else { "" };
        format!("<stitchpool.Listener{state}>")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.held.visit(&visit)?;
        for function in [&self.ears.before, &self.ears.after] {
            if let Some(function) = function.try_lock() {
                visit.call(&*function)?;
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        self.ears.clear();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Whoever drops it cannot act on a refusal.
        let _ = Python::try_attach(|py| self.close(py));
    }
}
