//! A pool for Python callers: opening, looking and closing. What it gives out is made in `makes`.

use crate::companion::Companion;
use crate::figures;
use crate::options::Options;
use crate::refused::{Refused, Result};
use crate::relief::Relief;
use parking_lot::Mutex;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::{Arc, Once};
use stitchpool_c::{OpenDriver, SharedPool, Status};
use stitchpool_driver::{Address, Kernels};

/// A pool: open until it is closed, or until nobody has it or a block of it any more.
#[pyclass(frozen, weakref, subclass, module = "stitchpool")]
pub(crate) struct Pool {
    shared: SharedPool,
    /// Iff it is closed with this object.
    is_own: bool,
    driver: &'static str,
    /// Why it is the host driver, where `auto` had to take it.
    why_host: Option<String>,
    relief: Arc<Relief>,
    /// So that the pool asks `relief` from when that is first set.
    asked: Once,
    seen: Mutex<Seen>,
    /// What its own `export` offers by, once it was asked to.
    companion: Companion,
}

/// Whether memory may leave its address, or somebody may look at it: never both.
#[derive(Default)]
pub(crate) struct Seen {
    /// How many views of the blocks' bytes there are.
    pub(crate) views: usize,
    /// How many calls are under way that take memory from its address. Not a lock: they call listeners, which
    /// want the interpreter.
    moving: usize,
}

impl Seen {
    /// Refuses while memory leaves its address.
    pub(crate) fn demand_still(&self) -> PyResult<()> {
        if self.moving == 0 {
            return Ok(());
        }
        Err(PyBufferError::new_err("memory of this pool is leaving its address: look at it when that has ended"))
    }
}

/// A call that takes memory from its address, until it ends.
struct Moving<'a>(&'a Mutex<Seen>);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.lock().moving -= 1;
    }
}

impl Pool {
    /// One that somebody else opened, and closes.
    pub(crate) fn borrowed(shared: SharedPool) -> Result<Self> {
        Self::of(shared, false, None)
    }

    fn of(shared: SharedPool, is_own: bool, why_host: Option<String>) -> Result<Self> {
        let driver = shared.driver()?.driver.name();
        let (relief, seen, companion) = Default::default();
        Ok(Self { shared, is_own, driver, why_host, relief, asked: Once::new(), seen, companion })
    }

    pub(crate) const fn shared(&self) -> SharedPool {
        self.shared
    }

    /// What makes streams. Refuses in the child of a fork, whose driver this is not.
    pub(crate) fn streams(&self) -> Result<Arc<dyn Kernels>> {
        Ok(self.shared.driver()?.streams)
    }

    pub(crate) const fn companion(&self) -> &Companion {
        &self.companion
    }

    pub(crate) const fn seen(&self) -> &Mutex<Seen> {
        &self.seen
    }

    /// Does what takes memory from its address, while nobody looks at it and nobody begins to.
    pub(crate) fn unseen<R>(
        &self,
        body: impl FnOnce(&stitchpool_pool::Pool) -> stitchpool_pool::Result<R>,
    ) -> Result<R> {
        let mut seen = self.seen.lock();
        if seen.views > 0 {
            let words = format!("{} views of this pool's blocks are there: release them first", seen.views);
            return Err(PyBufferError::new_err(words).into());
        }
        seen.moving += 1;
        drop(seen);
        let _moving = Moving(&self.seen);
        Ok(self.shared.with(body)??)
    }

    /// Whether the bytes of its blocks can be looked at by the CPU.
    pub(crate) fn is_on_host(&self) -> bool {
        self.driver == "host"
    }
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (driver = "auto", **settings))]
    fn new(py: Python<'_>, driver: &str, settings: Option<&Bound<'_, PyDict>>) -> Result<Self> {
        let options = Options::read(settings)?;
        py.detach(|| {
            let opened = options.open(driver)?;
            let on = OpenDriver { driver: opened.driver, streams: opened.streams };
            Self::of(SharedPool::open(on, options.settings)?, true, opened.why_host)
        })
    }

    #[getter]
    const fn driver(&self) -> &'static str {
        self.driver
    }

    #[getter]
    fn why_host(&self) -> Option<&str> {
        self.why_host.as_deref()
    }

    #[getter]
    const fn handle(&self) -> usize {
        self.shared.handle()
    }

    fn free(&self, py: Python<'_>, address: u64) -> Result<()> {
        py.detach(|| Ok(self.shared.with(|pool| pool.free(Address(address)))??))
    }

    fn picture(&self, py: Python<'_>) -> Result<String> {
        let lines = py.detach(|| self.shared.with(|pool| pool.pictures()))?;
        Ok(lines.join("\n"))
    }

    #[pyo3(signature = (name = "default"))]
    fn prometheus(&self, py: Python<'_>, name: &str) -> Result<String> {
        Ok(py.detach(|| self.shared.with(|pool| pool.stats().prometheus(name, None)))?)
    }

    fn holds(&self, py: Python<'_>, address: u64) -> Result<bool> {
        Ok(py.detach(|| self.shared.with(|pool| pool.block_holding(Address(address)).is_some()))?)
    }

    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let stats = py.detach(|| self.shared.with(|pool| pool.stats()))?;
        Ok(figures::stats(py, &stats)?)
    }

    #[pyo3(signature = (wait = false))]
    fn trim<'py>(&self, py: Python<'py>, wait: bool) -> Result<Bound<'py, PyAny>> {
        let trimmed =
            py.detach(|| self.shared.with(|pool| if wait { pool.trim_and_wait() } else { Ok(pool.trim()) }))??;
        match trimmed.refusal {
            Some(refusal) => Err(refusal.into()),
            None => Ok(figures::trimmed(py, &trimmed)?),
        }
    }

    #[pyo3(signature = (function))]
    fn on_shortage(&self, py: Python<'_>, function: Option<Py<PyAny>>) -> Result<()> {
        let asked = self.relief.clone();
        let ask = || self.shared.with(|pool| pool.on_shortage(Arc::new(move |_, shortage| asked.ask(shortage))));
        let mut first = Ok(());
        py.detach(|| self.asked.call_once(|| first = ask()));
        self.relief.set(function);
        Ok(first?)
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        // While something is offered the pool stays open, and so does what offers it.
        if matches!(py.detach(|| self.shared.held::<stitchpool_share::Offer>()), Ok(0)) {
            self.companion.end(py)?;
        }
        py.detach(|| match self.shared.close() {
            Err(refusal) if refusal.status == Status::InvalidHandle => Ok(()),
            closed => closed.map_err(Refused::from),
        })
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*reason))]
    fn __exit__(&self, py: Python<'_>, reason: &Bound<'_, PyTuple>) -> Result<()> {
        let is_raised = reason.iter().any(|part| !part.is_none());
        // What was raised inside comes first; it may be why blocks are still live.
        let closed = self.close(py);
        if is_raised { Ok(()) } else { closed }
    }

    fn __repr__(&self) -> String {
        format!("<stitchpool.Pool {:#x} on {}>", self.shared.handle(), self.driver)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.companion.visit(&visit)?;
        self.relief.visit(&visit)
    }

    fn __clear__(&self) {
        self.companion.forget();
        self.relief.set(None);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.is_own {
            // Its streams may have work left, for which Python need not stand still. What cannot be closed
            // now (from inside a callback, or as the process's pool) stays until the process ends.
            let leave = || drop(self.shared.leave());
            if Python::try_attach(|py| py.detach(leave)).is_none() {
                let _ = self.shared.leave();
            }
        }
    }
}
