//! The Python face: `stitchpool._native`. It translates and decides nothing; what Python callers read
//! stands in `stitchpool/_native.pyi`. The library also has all functions of the C interface, so that
//! Python, C and PyTorch share their pools.

mod block;
mod figures;
mod options;
mod placement;
mod pool;
mod program;
mod refused;
mod relief;
mod stream;
mod torch;

// Its functions are the library's own, whoever of them is called from here.
use stitchpool_c as _;

/// The module that the package's own files import.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::block::Block;
    #[pymodule_export]
    use crate::placement::Placement;
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::program::{command, replay};
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::torch::{adopt, last_refusal, process_pool, unknown_frees};
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "its name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
