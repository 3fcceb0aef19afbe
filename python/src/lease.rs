//! Leases for Python callers: a block stays in place until what uses it is launched.

use crate::block::Block;
use crate::held::Held;
use crate::pool::Pool;
use crate::refused::Result;
use crate::scope::range_of;
use crate::stream::{registered, value_of};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use stitchpool_driver::Address;

/// A token that keeps a block mapped.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Lease {
    held: Held<Mutex<stitchpool_pool::Lease>>,
    address: Address,
    bytes: u64,
    device: i32,
}

type Take = fn(&stitchpool_pool::Pool, Address) -> stitchpool_pool::Result<stitchpool_pool::Lease>;

impl Lease {
    /// Of a block, whose device is known, or of the one at an address.
    pub(crate) fn take(pool: &Bound<'_, Pool>, block: &Bound<'_, PyAny>, device: i32) -> Result<Self> {
        Self::taken(pool, block, device, stitchpool_pool::Pool::lease)
    }

    /// The same, of one that may have been put out: it is brought back first.
    pub(crate) fn touch(pool: &Bound<'_, Pool>, block: &Bound<'_, PyAny>, device: i32) -> Result<Self> {
        Self::taken(pool, block, device, stitchpool_pool::Pool::touch)
    }

    fn taken(pool: &Bound<'_, Pool>, block: &Bound<'_, PyAny>, device: i32, take: Take) -> Result<Self> {
        let (address, _) = range_of(block, None)?;
        let device = block.cast::<Block>().map_or(device, |block| block.get().device_number());
        let held = Held::<Mutex<stitchpool_pool::Lease>>::make(pool, |pool| take(pool, address).map(Mutex::new))?;
        let bytes = held.with(pool.py(), |taken| taken.lock().bytes())?;
        Ok(Self { held, address, bytes, device })
    }
}

#[pymethods]
impl Lease {
    #[getter]
    const fn address(&self) -> u64 {
        self.address.0
    }

    #[getter]
    const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn record_use(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> Result<()> {
        let (value, shared) = (value_of(Some(stream))?, self.held.pool().shared());
        let id = py.detach(|| registered(shared, self.device, value))?;
        Ok(self.held.with(py, |lease| lease.lock().record_use(id))??)
    }

    #[pyo3(signature = (stream = None))]
    fn end(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> Result<()> {
        if let Some(stream) = stream {
            self.record_use(py, stream)?;
        }
        self.held.end(py)
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, py: Python<'_>, _reason: &Bound<'_, PyTuple>) -> Result<()> {
        self.held.end(py)
    }

    fn __repr__(&self) -> String {
        self.held.words("Lease", self.address, self.bytes)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.held.visit(&visit)
    }
}
