//! A block for Python callers.

use crate::arena::{self, Arena};
use crate::figures;
use crate::pool::Pool;
use crate::refused::{Refused, Result};
use crate::stream::{registered, value_of};
use parking_lot::Mutex;
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::ffi::c_int;
use stitchpool_c::{Refusal, Status, device_of};
use stitchpool_driver::{Address, DeviceId};
use stitchpool_pool::{ArenaId, Placement, Request, Scope, StreamId};

/// A block: freed when it is told so, when its `with` ends, or when nobody has it any more.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Block {
    pool: Py<Pool>,
    address: Address,
    bytes: u64,
    device: i32,
    stream: u64,
    life: Mutex<Life>,
}

/// How far a block is.
#[derive(Default)]
struct Life {
    /// Iff the address is the pool's again.
    freed: bool,
    /// How many views of its bytes there are; none iff it may be freed.
    views: usize,
}

/// What was asked for.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) bytes: u64,
    pub(crate) device: i32,
    pub(crate) stream: u64,
    pub(crate) alignment: u64,
    pub(crate) place: Option<Placement>,
    pub(crate) readers: Vec<DeviceId>,
    pub(crate) arena: Option<ArenaId>,
    pub(crate) exclusive: bool,
}

impl Wanted {
    /// The same, with what a pool's caller says in further keywords.
    pub(crate) fn told(mut self, pool: &Pool, how: Option<&Bound<'_, PyDict>>) -> Result<Self> {
        for (key, value) in how.into_iter().flatten() {
            match key.extract::<String>()?.as_str() {
                _ if value.is_none() => {}
                "place" => self.place = Some(value.extract::<crate::placement::Placement>().map_err(PyErr::from)?.0),
                "readers" => {
                    let numbers: Vec<i32> = value.extract()?;
                    self.readers = numbers.into_iter().map(device_of).collect::<std::result::Result<_, _>>()?;
                }
                "exclusive" => self.exclusive = value.extract()?,
                "arena" => {
                    let arena = value.cast::<Arena>().map_err(PyErr::from)?.get();
                    if !arena.is_of(pool) {
                        return Err(Refused::request("this arena is another pool's: ask this pool for its own"));
                    }
                    self.arena = Some(arena.id());
                }
                key => {
                    let words = "it takes bytes, device, stream, alignment, place, readers, arena, exclusive";
                    return Err(Refused::request(format!("alloc has no keyword `{key}`; {words}")));
                }
            }
        }
        Ok(self)
    }

    pub(crate) fn request(self, id: StreamId) -> Request {
        Request {
            placement: self.place,
            readers: self.readers,
            arena: self.arena.unwrap_or(ArenaId::DEFAULT),
            exclusive: self.exclusive,
            ..Request::new(self.bytes, id).aligned_to(self.alignment)
        }
    }
}

impl Block {
    pub(crate) fn alloc(pool: &Bound<'_, Pool>, wanted: Wanted) -> Result<Self> {
        let (device, stream) = (wanted.device, wanted.stream);
        let shared = pool.get().shared();
        let block = pool.py().detach(|| {
            let id = registered(shared, device, stream)?;
            Ok::<_, Refused>(shared.with(|pool| pool.alloc(&wanted.request(id)))??)
        })?;
        let pool = pool.clone().unbind();
        Ok(Self { pool, address: block.address, bytes: block.bytes, device, stream, life: Mutex::default() })
    }

    pub(crate) const fn length(&self) -> u64 {
        self.bytes
    }

    /// Its address, as long as that is its own.
    pub(crate) fn live_address(&self) -> Result<u64> {
        if self.life.lock().freed { Err(self.was_freed()) } else { Ok(self.address.0) }
    }

    pub(crate) const fn device_number(&self) -> i32 {
        self.device
    }

    pub(crate) fn is_of(&self, pool: &Pool) -> bool {
        self.pool.get().shared() == pool.shared()
    }

    pub(crate) fn scope(&self) -> Result<Scope> {
        Ok(Scope::Block(Address(self.live_address()?)))
    }

    /// Refuses while it is suspended, as a whole or in part.
    fn demand_memory(&self) -> Result<()> {
        let segments = self.pool.get().shared().with(|pool| pool.segments(self.address, self.bytes))??;
        let there: u64 = segments.iter().map(|segment| segment.bytes).sum();
        if there == self.bytes {
            return Ok(());
        }
        let words = format!("the block at {} is suspended: resume it first", self.address);
        Err(Refusal { status: Status::Asleep, words }.into())
    }

    fn was_freed(&self) -> Refused {
        let words = format!("the block at {} was freed already", self.address);
        Refusal { status: Status::UnknownAddress, words }.into()
    }

    /// Marks it freed before it is, so that of two threads one does it.
    fn begin_end(&self) -> Result<()> {
        let mut life = self.life.lock();
        if life.freed {
            return Err(self.was_freed());
        }
        if life.views > 0 {
            let words =
                format!("the block at {} has {} views of its bytes: release them first", self.address, life.views);
            return Err(PyBufferError::new_err(words).into());
        }
        life.freed = true;
        Ok(())
    }

    fn end(&self, stream: Option<u64>) -> Result<()> {
        let shared = self.pool.get().shared();
        let freed = match stream {
            None => shared.with(|pool| pool.free(self.address)).map_err(Refused::from),
            Some(value) => registered(shared, self.device, value)
                .and_then(|id| Ok(shared.with(|pool| pool.free_on(self.address, id))?)),
        };
        match freed {
            Ok(Ok(())) => Ok(()),
            refused => {
                self.life.lock().freed = false;
                Ok(refused??)
            }
        }
    }
}

#[pymethods]
impl Block {
    #[getter]
    const fn address(&self) -> u64 {
        self.address.0
    }

    #[getter]
    const fn bytes(&self) -> u64 {
        self.bytes
    }

    #[getter]
    const fn device(&self) -> i32 {
        self.device
    }

    #[getter]
    const fn stream(&self) -> u64 {
        self.stream
    }

    #[getter]
    fn freed(&self) -> bool {
        self.life.lock().freed
    }

    #[pyo3(signature = (stream = None))]
    fn free(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> Result<()> {
        let stream = stream.map(|stream| value_of(Some(stream))).transpose()?;
        self.begin_end()?;
        py.detach(|| self.end(stream))
    }

    fn record_use(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> Result<()> {
        let value = value_of(Some(stream))?;
        let address = Address(self.live_address()?);
        let shared = self.pool.get().shared();
        py.detach(|| {
            let id = registered(shared, self.device, value)?;
            Ok(shared.with(|pool| pool.record_use(address, id))??)
        })
    }

    fn segments<'py>(&self, py: Python<'py>) -> Result<Vec<Bound<'py, PyAny>>> {
        let (address, shared) = (Address(self.live_address()?), self.pool.get().shared());
        let found = py.detach(|| shared.with(|pool| pool.segments(address, self.bytes)))??;
        Ok(found.iter().map(|segment| figures::segment(py, segment)).collect::<PyResult<_>>()?)
    }

    #[pyo3(signature = (backup = None))]
    fn suspend<'py>(&self, py: Python<'py>, backup: Option<&Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>> {
        arena::suspend(self.pool.bind(py), self.scope()?, backup)
    }

    fn resume<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        arena::resume(self.pool.bind(py), self.scope()?)
    }

    fn migrate<'py>(&self, py: Python<'py>, device: i32) -> Result<Bound<'py, PyAny>> {
        arena::migrate(self.pool.bind(py), self.scope()?, device)
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        if self.pool.get().is_on_host() {
            return Err(PyAttributeError::new_err("a block of the host driver is no memory of a GPU").into());
        }
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.bytes,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.live_address()?, false))?;
        interface.set_item("version", 3)?;
        // The protocol names the legacy default stream 1, and forbids 0.
        interface.set_item("stream", self.stream.max(1))?;
        Ok(interface)
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, py: Python<'_>, _reason: &Bound<'_, PyTuple>) -> Result<()> {
        if self.freed() { Ok(()) } else { self.free(py, None) }
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.bytes)?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.pool)
    }

    fn __repr__(&self) -> String {
        let state = if self.freed() { ", freed" } else { "" };
        format!("<stitchpool.Block {} bytes at {} of device {}{state}>", self.bytes, self.address, self.device)
    }

    /// # Safety
    /// - As the interpreter calls it: `view` is to be filled in.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut pyo3::ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let block = slf.get();
        if !block.pool.get().is_on_host() {
            return Err(PyBufferError::new_err("only blocks of the host driver have bytes that the CPU can look at"));
        }
        let mut life = block.life.lock();
        if life.freed {
            return Err(block.was_freed().into());
        }
        let mut seen = block.pool.get().seen().lock();
        seen.demand_still()?;
        block.demand_memory()?;
        let start = std::ptr::with_exposed_provenance_mut(block.address.0 as usize);
        // SAFETY: the interpreter's `view`; the block's bytes are memory of this process that stays mapped
        // until it is freed, which `life.views` forbids, or sleeps or moves, which the pool's `seen` does.
        let filled =
            unsafe { pyo3::ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, block.bytes.try_into()?, 0, flags) };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        life.views += 1;
        seen.views += 1;
        Ok(())
    }

    /// # Safety
    /// - As the interpreter calls it: once for each view that was filled in.
    unsafe fn __releasebuffer__(&self, _view: *mut pyo3::ffi::Py_buffer) {
        let mut life = self.life.lock();
        life.views = life.views.saturating_sub(1);
        let mut seen = self.pool.get().seen().lock();
        seen.views = seen.views.saturating_sub(1);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // Whoever drops a block cannot act on a refusal.
        if self.begin_end().is_ok() {
            let _ = self.end(None);
        }
    }
}
