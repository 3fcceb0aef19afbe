//! The pool of this process for PyTorch.

use crate::pool::Pool;
use crate::refused::Result;
use pyo3::prelude::*;
use stitchpool_c::SharedPool;

/// Makes a pool the process's, to the end of the process.
#[pyfunction]
pub(crate) fn adopt(pool: &Bound<'_, Pool>) -> Result<()> {
    Ok(pool.get().shared().adopt()?)
}

/// The process's pool; opens it as it was configured, else on CUDA, if it is not there yet.
#[pyfunction]
pub(crate) fn process_pool(py: Python<'_>) -> Result<Pool> {
    py.detach(|| Pool::borrowed(SharedPool::of_process()?))
}

/// Gives PyTorch's requests of this thread an arena, by its number; 0: none. The one before.
#[pyfunction]
pub(crate) fn enter_arena(number: u32) -> u32 {
    stitchpool_c::enter_arena(number)
}

/// The words of the latest refusal to PyTorch; empty if there was none.
#[pyfunction]
pub(crate) fn last_refusal() -> String {
    stitchpool_c::last_refusal()
}

/// How many pointers PyTorch wanted freed that the pool does not know.
#[pyfunction]
pub(crate) fn unknown_frees() -> u64 {
    stitchpool_c::unknown_frees()
}
