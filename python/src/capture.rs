//! Captures for Python callers: a `with` around that of the driver or of PyTorch.

use crate::arena::Arena;
use crate::pool::Pool;
use crate::refused::{Refused, Result};
use crate::stream::registered;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use stitchpool_pool::StreamId;

/// While it is entered, the stream's requests are served in the arena.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Capture {
    pool: Py<Pool>,
    arena: Py<Arena>,
    stream: u64,
    device: i32,
    /// None iff it is not entered.
    begun: Mutex<Option<StreamId>>,
}

impl Capture {
    pub(crate) fn of(pool: &Bound<'_, Pool>, stream: u64, arena: &Bound<'_, Arena>, device: i32) -> Result<Self> {
        if !arena.get().is_of(pool.get()) {
            return Err(Refused::request("this arena is another pool's: ask this pool for its own"));
        }
        let (pool, arena) = (pool.clone().unbind(), arena.clone().unbind());
        Ok(Self { pool, arena, stream, device, begun: Mutex::default() })
    }

    fn begin(&self) -> Result<()> {
        let mut begun = self.begun.lock();
        if begun.is_some() {
            return Err(Refused::request("this capture is entered already: make another one for another stream"));
        }
        let (shared, arena) = (self.pool.get().shared(), self.arena.get().id());
        let stream = registered(shared, self.device, self.stream)?;
        shared.with(|pool| pool.begin_capture(stream, arena))??;
        *begun = Some(stream);
        Ok(())
    }

    fn end(&self, no_graph: bool) -> Result<()> {
        let begun = self.begun.lock().take();
        let Some(stream) = begun else { return Err(Refused::request("this capture is not entered")) };
        let end = |pool: &stitchpool_pool::Pool| match no_graph {
            true => pool.abort_capture(stream),
            false => pool.end_capture(stream),
        };
        Ok(self.pool.get().shared().with(end)??)
    }
}

#[pymethods]
impl Capture {
    #[getter]
    fn arena(&self, py: Python<'_>) -> Py<Arena> {
        self.arena.clone_ref(py)
    }

    fn __enter__(slf: &Bound<'_, Self>) -> Result<Py<Self>> {
        let capture = slf.get();
        slf.py().detach(|| capture.begin())?;
        Ok(slf.clone().unbind())
    }

    #[pyo3(signature = (*reason))]
    fn __exit__(&self, py: Python<'_>, reason: &Bound<'_, PyTuple>) -> Result<()> {
        let is_raised = reason.iter().any(|part| !part.is_none());
        let ended = py.detach(|| self.end(is_raised));
        // What was raised inside comes first.
        if is_raised { Ok(()) } else { ended }
    }

    fn __repr__(&self) -> String {
        format!("<stitchpool.Capture of stream {:#x} of device {}>", self.stream, self.device)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.pool)?;
        visit.call(&self.arena)
    }
}
