//! Pins for Python callers: handles stay where they are.

use crate::held::{Held, closes_with_its_block};
use crate::pool::Pool;
use crate::refused::Result;
use crate::scope::range_of;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use stitchpool_driver::Address;

/// Handles that nobody takes from their place.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Pin {
    held: Held<stitchpool_pool::Pin>,
    address: Address,
    bytes: u64,
}

impl Pin {
    pub(crate) fn make(pool: &Bound<'_, Pool>, block: &Bound<'_, PyAny>, bytes: Option<u64>) -> Result<Self> {
        let (address, bytes) = range_of(block, bytes)?;
        let held = Held::<stitchpool_pool::Pin>::make(pool, |pool| pool.pin(address, bytes))?;
        let (address, bytes) = held.with(pool.py(), |pin| (pin.address(), pin.bytes()))?;
        Ok(Self { held, address, bytes })
    }
}

closes_with_its_block!(Pin);

#[pymethods]
impl Pin {
    #[getter]
    const fn address(&self) -> u64 {
        self.address.0
    }

    #[getter]
    const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        self.held.end(py)
    }

    fn __repr__(&self) -> String {
        self.held.words("Pin", self.address, self.bytes)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.held.visit(&visit)
    }
}
