//! The Python face: `stitchpool._native`. It translates and decides nothing; what Python callers read
//! stands in `stitchpool/_native.pyi`. The library also has all functions of the C interface, so that
//! Python, C and PyTorch share their pools.

mod arena;
mod block;
mod capture;
mod companion;
mod exporter;
mod figures;
mod growable;
mod held;
mod importer;
mod lease;
mod listener;
mod makes;
mod options;
mod pin;
mod placement;
mod pool;
mod program;
mod refused;
mod relief;
mod rights;
mod scope;
mod stream;
mod torch;
mod view;

// Its functions are the library's own, whoever of them is called from here.
use stitchpool_c as _;

/// The module that the package's own files import.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::arena::Arena;
    #[pymodule_export]
    use crate::block::Block;
    #[pymodule_export]
    use crate::capture::Capture;
    #[pymodule_export]
    use crate::exporter::{Exporter, Offer};
    #[pymodule_export]
    use crate::growable::Growable;
    #[pymodule_export]
    use crate::importer::{Hold, Import, Importer};
    #[pymodule_export]
    use crate::lease::Lease;
    #[pymodule_export]
    use crate::listener::Listener;
    #[pymodule_export]
    use crate::pin::Pin;
    #[pymodule_export]
    use crate::placement::Placement;
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::program::{command, replay};
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::torch::{adopt, enter_arena, last_refusal, process_pool, unknown_frees};
    #[pymodule_export]
    use crate::view::View;
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "its name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
