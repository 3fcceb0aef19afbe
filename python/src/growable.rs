//! Growable buffers for Python callers.

use crate::block::Wanted;
use crate::figures;
use crate::held::{Held, closes_with_its_block};
use crate::pool::Pool;
use crate::refused::Result;
use crate::stream::{registered, value_of};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use stitchpool_driver::Address;

/// Addresses for a maximum, with memory where it was asked for.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Growable {
    held: Held<stitchpool_pool::Growable>,
    address: Address,
    max_bytes: u64,
    step_bytes: u64,
    device: i32,
}

impl Growable {
    pub(crate) fn make(
        pool: &Bound<'_, Pool>,
        wanted: Wanted,
        max_bytes: u64,
        step_bytes: Option<u64>,
    ) -> Result<Self> {
        let (device, stream, shared) = (wanted.device, wanted.stream, pool.get().shared());
        let request = wanted.request(pool.py().detach(|| registered(shared, device, stream))?);
        let held = Held::<stitchpool_pool::Growable>::make(pool, |pool| match step_bytes {
            None => pool.growable(&request, max_bytes),
            Some(step_bytes) => pool.growable_in_steps(&request, max_bytes, step_bytes),
        })?;
        let (address, max_bytes, step_bytes) =
            held.with(pool.py(), |made| (made.address(), made.max_bytes(), made.step_bytes()))?;
        Ok(Self { held, address, max_bytes, step_bytes, device })
    }
}

closes_with_its_block!(Growable);

#[pymethods]
impl Growable {
    #[getter]
    const fn address(&self) -> u64 {
        self.address.0
    }

    #[getter]
    const fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    #[getter]
    const fn step_bytes(&self) -> u64 {
        self.step_bytes
    }

    #[getter]
    const fn device(&self) -> i32 {
        self.device
    }

    #[getter]
    fn backed_bytes(&self, py: Python<'_>) -> Result<u64> {
        self.held.with(py, stitchpool_pool::Growable::backed_bytes)
    }

    fn backed(&self, py: Python<'_>) -> Result<Vec<(u64, u64)>> {
        self.held.with(py, |buffer| buffer.backed().into_iter().map(|range| (range.start, range.end)).collect())
    }

    fn grow_to(&self, py: Python<'_>, bytes: u64) -> Result<()> {
        Ok(self.held.with(py, |buffer| buffer.grow_to(bytes))??)
    }

    fn back(&self, py: Python<'_>, offset: u64, bytes: u64) -> Result<()> {
        Ok(self.held.with(py, |buffer| buffer.back(offset, bytes))??)
    }

    fn give_back(&self, py: Python<'_>, offset: u64, bytes: u64) -> Result<u64> {
        Ok(self.held.with(py, |buffer| buffer.give_back(offset, bytes))??)
    }

    fn record_use(&self, py: Python<'_>, offset: u64, bytes: u64, stream: &Bound<'_, PyAny>) -> Result<()> {
        let (value, shared) = (value_of(Some(stream))?, self.held.pool().shared());
        let id = py.detach(|| registered(shared, self.device, value))?;
        Ok(self.held.with(py, |buffer| buffer.record_use(offset, bytes, id))??)
    }

    fn segments<'py>(&self, py: Python<'py>, offset: u64, bytes: u64) -> Result<Vec<Bound<'py, PyAny>>> {
        let found = self.held.with(py, |buffer| buffer.segments(offset, bytes))??;
        Ok(found.iter().map(|segment| figures::segment(py, segment)).collect::<PyResult<_>>()?)
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        self.held.end(py)
    }

    fn __repr__(&self) -> String {
        self.held.words("Growable", self.address, self.max_bytes)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.held.visit(&visit)
    }
}
