//! A pool for Python callers.

use crate::block::{Block, Wanted};
use crate::figures;
use crate::options::{Opened, Options};
use crate::placement::Placement;
use crate::refused::{Refused, Result};
use crate::relief::Relief;
use crate::stream::{Stream, value_of};
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
}

impl Pool {
    /// One that somebody else opened, and closes.
    pub(crate) fn borrowed(shared: SharedPool) -> Self {
        Self { shared, opened: None, relief: Arc::default() }
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
            Ok(Self { shared, opened: Some(opened), relief })
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

    #[pyo3(signature = (bytes, device = 0, stream = None, alignment = 512, *, place = None, readers = Vec::new()))]
    fn alloc(
        slf: &Bound<'_, Self>,
        bytes: u64,
        device: i32,
        stream: Option<&Bound<'_, PyAny>>,
        alignment: u64,
        place: Option<Placement>,
        readers: Vec<i32>,
    ) -> Result<Block> {
        let stream = value_of(stream)?;
        let wanted = Wanted { bytes, device, stream, alignment, place: place.map(|place| place.0), readers };
        Block::alloc(slf, wanted)
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

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, py: Python<'_>, _reason: &Bound<'_, PyTuple>) -> Result<()> {
        self.close(py)
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
