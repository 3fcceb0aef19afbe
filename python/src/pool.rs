//! A pool for Python callers.

use crate::arena::Arena;
use crate::block::{Block, Wanted};
use crate::capture::Capture;
use crate::exporter::{Exporter, Offer, Terms};
use crate::figures;
use crate::growable::Growable;
use crate::lease::Lease;
use crate::listener::Listener;
use crate::options::{Opened, Options};
use crate::pin::Pin;
use crate::refused::{Refused, Result};
use crate::relief::Relief;
use crate::rights::grants_of;
use crate::scope::{range_of, scope_of};
use crate::stream::{Stream, value_of};
use crate::view::View;
use parking_lot::Mutex;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::path::PathBuf;
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
    seen: Mutex<Seen>,
    /// What `export` offers by, once it was asked to.
    exporter: Mutex<Option<Py<Exporter>>>,
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
    pub(crate) fn borrowed(shared: SharedPool) -> Self {
        Self { shared, opened: None, relief: Arc::default(), seen: Mutex::default(), exporter: Mutex::default() }
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

    /// The exporter that `export` offers by, with a thread that answers.
    fn own_exporter<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, Exporter>> {
        let py = slf.py();
        let known = slf.get().exporter.lock().as_ref().map(|known| known.clone_ref(py));
        if let Some(known) = known.filter(|known| !known.get().is_over()) {
            return Ok(known.into_bound(py));
        }
        let made = Py::new(py, Exporter::open(slf, None)?)?;
        made.get().begin_to_serve(py)?;
        *slf.get().exporter.lock() = Some(made.clone_ref(py));
        Ok(made.into_bound(py))
    }

    /// Ends it where nothing is offered any more.
    fn end_own_exporter(&self, py: Python<'_>) -> Result<()> {
        let offers = py.detach(|| self.shared.held::<stitchpool_share::Offer>());
        let own = if matches!(offers, Ok(0)) { self.exporter.lock().take() } else { None };
        own.map_or(Ok(()), |own| own.get().close(py))
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
            Ok(Self { shared, opened: Some(opened), relief, seen: Mutex::default(), exporter: Mutex::default() })
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

    #[pyo3(signature = (max_bytes, bytes = 0, device = 0, stream = None, *, step_bytes = None, **how))]
    fn growable(
        slf: &Bound<'_, Self>,
        max_bytes: u64,
        bytes: u64,
        device: i32,
        stream: Option<&Bound<'_, PyAny>>,
        step_bytes: Option<u64>,
        how: Option<&Bound<'_, PyDict>>,
    ) -> Result<Growable> {
        let plain = Wanted { bytes, device, stream: value_of(stream)?, alignment: 512, ..Wanted::default() };
        Growable::make(slf, plain.told(slf.get(), how)?, max_bytes, step_bytes)
    }

    fn view(slf: &Bound<'_, Self>, parts: Vec<Bound<'_, PyAny>>, rights: &Bound<'_, PyDict>) -> Result<View> {
        View::make(slf, &parts, &grants_of(rights)?)
    }

    #[pyo3(signature = (memory, rights = "read", *, ranks = 0, within = 30.0))]
    fn export(
        slf: &Bound<'_, Self>,
        memory: &Bound<'_, PyAny>,
        rights: &str,
        ranks: u32,
        within: f64,
    ) -> Result<Offer> {
        let terms = Terms::understood(rights, ranks, within)?;
        Exporter::offer(&Self::own_exporter(slf)?, memory, terms)
    }

    #[pyo3(signature = (path = None))]
    fn exporter(slf: &Bound<'_, Self>, path: Option<PathBuf>) -> Result<Exporter> {
        Exporter::open(slf, path)
    }

    #[pyo3(signature = (block, device = 0))]
    fn lease(slf: &Bound<'_, Self>, block: &Bound<'_, PyAny>, device: i32) -> Result<Lease> {
        Lease::take(slf, block, device)
    }

    #[pyo3(signature = (block, bytes = None))]
    fn pin(slf: &Bound<'_, Self>, block: &Bound<'_, PyAny>, bytes: Option<u64>) -> Result<Pin> {
        Pin::make(slf, block, bytes)
    }

    #[pyo3(signature = (before = None, after = None, of = None))]
    fn listen(
        slf: &Bound<'_, Self>,
        before: Option<Py<PyAny>>,
        after: Option<Py<PyAny>>,
        of: Option<&Bound<'_, PyAny>>,
    ) -> Result<Listener> {
        Listener::new(slf, before, after, of)
    }

    #[pyo3(signature = (stream, arena, device = 0))]
    fn capture(
        slf: &Bound<'_, Self>,
        stream: &Bound<'_, PyAny>,
        arena: &Bound<'_, Arena>,
        device: i32,
    ) -> Result<Capture> {
        Capture::of(slf, value_of(Some(stream))?, arena, device)
    }

    #[pyo3(signature = (rights, of = None))]
    fn set_rights(&self, py: Python<'_>, rights: &Bound<'_, PyDict>, of: Option<&Bound<'_, PyAny>>) -> Result<()> {
        let (scope, grants) = (scope_of(self, of)?, grants_of(rights)?);
        py.detach(|| self.unseen(|pool| pool.set_rights(scope, &grants)))
    }

    fn exchange(&self, py: Python<'_>, one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> Result<()> {
        let (one, other) = (scope_of(self, Some(one))?, scope_of(self, Some(other))?);
        py.detach(|| self.unseen(|pool| pool.exchange(one, other)))
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
        let (address, bytes) = range_of(block, bytes)?;
        let found = py.detach(|| self.shared.with(|pool| pool.segments(address, bytes)))??;
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
        self.end_own_exporter(py)?;
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
        if let Some(exporter) = &*self.exporter.lock() {
            visit.call(exporter)?;
        }
        self.relief.visit(&visit)
    }

    fn __clear__(&self) {
        drop(self.exporter.lock().take());
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
