//! A pool for Python callers.

use crate::arena::Arena;
use crate::block::{Block, Wanted};
use crate::figures;
use crate::options::{Opened, Options};
use crate::refused::{Refused, Result};
use crate::relief::Relief;
use crate::stream::{Stream, value_of};
use parking_lot::Mutex;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Arc;
use stitchpool_c::{Refusal, SharedPool, Status};
use stitchpool_driver::{Address, Kernels};

/// A pool: open until it is closed, or until nobody has it or a block of it any more.
#[pyclass(frozen, weakref, subclass, module = "stitchpool")]
pub(crate) struct Pool {
    shared: SharedPool,
    /// None iff the pool was opened from elsewhere.
    opened: Option<Opened>,
    relief: Arc<Relief>,
    /// How many views of its blocks' bytes there are; none iff memory may leave its address.
    views: Mutex<usize>,
}

impl Pool {
    /// One that somebody else opened, and closes.
    pub(crate) fn borrowed(shared: SharedPool) -> Self {
        Self { shared, opened: None, relief: Arc::default(), views: Mutex::default() }
    }

    pub(crate) const fn shared(&self) -> SharedPool {
        self.shared
    }

    /// What makes streams. Refuses in the child of a fork, whose driver this is not.
    pub(crate) fn streams(&self) -> Result<&dyn Kernels> {
        self.shared.with(|_| ())?;
        let opened = self.opened.as_ref().ok_or_else(|| {
            let words = "this pool was opened from elsewhere: use the streams of who opened it".into();
            Refusal { status: Status::NotSupported, words }
        })?;
        Ok(&*opened.streams)
    }

    pub(crate) const fn views(&self) -> &Mutex<usize> {
        &self.views
    }

    /// Does what takes memory from its address, while nobody looks at it and nobody begins to.
    pub(crate) fn unseen<R>(
        &self,
        body: impl FnOnce(&stitchpool_pool::Pool) -> stitchpool_pool::Result<R>,
    ) -> Result<R> {
        let views = self.views.lock();
        if *views > 0 {
            let words = format!("{} views of this pool's blocks are there: release them first", *views);
            return Err(PyBufferError::new_err(words).into());
        }
        Ok(self.shared.with(body)??)
    }

    /// Whether the bytes of its blocks can be looked at by the CPU.
    pub(crate) fn is_on_host(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.driver.name() == "host")
    }
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (driver = "auto", **settings))]
    fn new(py: Python<'_>, driver: &str, settings: Option<&Bound<'_, PyDict>>) -> Result<Self> {
        let options = Options::read(settings)?;
        let relief = Arc::new(Relief::default());
        let asked = relief.clone();
        py.detach(|| {
            let opened = options.open(driver)?;
            let shared = SharedPool::open(opened.driver.clone(), options.settings)?;
            shared.with(|pool| pool.on_shortage(Arc::new(move |_, shortage| asked.ask(shortage))))?;
            Ok(Self { shared, opened: Some(opened), relief, views: Mutex::default() })
        })
    }

    #[getter]
    fn driver(&self) -> &'static str {
        self.opened.as_ref().map_or("cuda", |opened| opened.driver.name())
    }

    #[getter]
    fn why_host(&self) -> Option<&str> {
        self.opened.as_ref()?.why_host.as_deref()
    }

    #[getter]
    const fn handle(&self) -> usize {
        self.shared.handle()
    }

    #[pyo3(signature = (bytes, device = 0, stream = None, alignment = 512, **how))]
    fn alloc(
        slf: &Bound<'_, Self>,
        bytes: u64,
        device: i32,
        stream: Option<&Bound<'_, PyAny>>,
        alignment: u64,
        how: Option<&Bound<'_, PyDict>>,
    ) -> Result<Block> {
        let plain = Wanted { bytes, device, stream: value_of(stream)?, alignment, ..Wanted::default() };
        Block::alloc(slf, plain.told(slf.get(), how)?)
    }

    fn arena(slf: &Bound<'_, Self>, name: String) -> Result<Arena> {
        Arena::named(slf, name)
    }

    #[pyo3(signature = (device = 0))]
    fn stream(slf: &Bound<'_, Self>, device: i32) -> Result<Stream> {
        Stream::open(slf, device)
    }

    fn free(&self, py: Python<'_>, address: u64) -> Result<()> {
        py.detach(|| Ok(self.shared.with(|pool| pool.free(Address(address)))??))
    }

    #[pyo3(signature = (block, bytes = None))]
    fn segments<'py>(
        &self,
        py: Python<'py>,
        block: &Bound<'py, PyAny>,
        bytes: Option<u64>,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        let (address, bytes) = match block.cast::<Block>() {
            Ok(block) => (block.get().live_address()?, bytes.unwrap_or(block.get().length())),
            Err(_) => (block.extract()?, bytes.unwrap_or(1)),
        };
        let found = py.detach(|| self.shared.with(|pool| pool.segments(Address(address), bytes)))??;
        Ok(found.iter().map(|segment| figures::segment(py, segment)).collect::<PyResult<_>>()?)
    }

    fn picture(&self, py: Python<'_>) -> Result<String> {
        let lines = py.detach(|| self.shared.with(|pool| pool.pictures()))?;
        Ok(lines.join("\n"))
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
    fn on_shortage(&self, function: Option<Py<PyAny>>) {
        self.relief.set(function);
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
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
        format!("<stitchpool.Pool {:#x} on {}>", self.shared.handle(), self.driver())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.relief.visit(&visit)
    }

    fn __clear__(&self) {
        self.relief.set(None);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.opened.is_some() {
            // Its streams may have work left, for which Python need not stand still. What cannot be closed
            // now (from inside a callback, or as the process's pool) stays until the process ends.
            let leave = || drop(self.shared.leave());
            if Python::try_attach(|py| py.detach(leave)).is_none() {
                let _ = self.shared.leave();
            }
        }
    }
}
