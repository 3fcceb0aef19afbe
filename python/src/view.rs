//! Views for Python callers: memory of parts of blocks under a second address.

use crate::block::Block;
use crate::figures;
use crate::held::{Held, closes_with_its_block};
use crate::pool::Pool;
use crate::refused::{Refused, Result};
use crate::scope::scope_of;
use crate::stream::{registered, value_of};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use stitchpool_driver::{Address, Grant};
use stitchpool_pool::{Part, Scope};

/// A contiguous range over parts of live blocks.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct View {
    held: Held<stitchpool_pool::View>,
    address: Address,
    bytes: u64,
}

/// A block, or an address and a length.
pub(crate) fn part_of(pool: &Pool, part: &Bound<'_, PyAny>) -> Result<Part> {
    match scope_of(pool, Some(part))? {
        Scope::Block(address) => Ok(Part { address, bytes: part.cast::<Block>().map_or(0, |it| it.get().length()) }),
        Scope::Range { address, bytes } => Ok(Part { address, bytes }),
        Scope::All | Scope::Arena(_) => {
            Err(Refused::request("a view is made of parts of blocks: pass blocks, or (address, bytes)"))
        }
    }
}

impl View {
    pub(crate) fn make(pool: &Bound<'_, Pool>, parts: &[Bound<'_, PyAny>], grants: &[Grant]) -> Result<Self> {
        let parts = parts.iter().map(|part| part_of(pool.get(), part)).collect::<Result<Vec<Part>>>()?;
        let held = Held::<stitchpool_pool::View>::make(pool, |pool| pool.view(&parts, grants))?;
        let (address, bytes) = held.with(pool.py(), |made| (made.address(), made.bytes()))?;
        Ok(Self { held, address, bytes })
    }
}

closes_with_its_block!(View);

#[pymethods]
impl View {
    #[getter]
    const fn address(&self) -> u64 {
        self.address.0
    }

    #[getter]
    const fn bytes(&self) -> u64 {
        self.bytes
    }

    #[pyo3(signature = (stream, device = 0))]
    fn record_use(&self, py: Python<'_>, stream: &Bound<'_, PyAny>, device: i32) -> Result<()> {
        let (value, shared) = (value_of(Some(stream))?, self.held.pool().shared());
        let id = py.detach(|| registered(shared, device, value))?;
        Ok(self.held.with(py, |view| view.record_use(id))??)
    }

    fn segments<'py>(&self, py: Python<'py>) -> Result<Vec<Bound<'py, PyAny>>> {
        let found = self.held.with(py, stitchpool_pool::View::segments)?;
        Ok(found.iter().map(|segment| figures::segment(py, segment)).collect::<PyResult<_>>()?)
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        self.held.end(py)
    }

    fn __repr__(&self) -> String {
        self.held.words("View", self.address, self.bytes)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.held.visit(&visit)
    }
}
