//! Finds libcuda. A library that was loaded stays loaded: the table's functions point into it.

use crate::{Cuda, OpenError};
use libloading::Library;
use std::error::Error;

/// The names under which the driver installs its library; the first one that loads is taken.
const NAMES: &[&str] = &["libcuda.so.1", "libcuda.so"];

impl Cuda {
    /// Loads the driver's library and takes every function from it. Calls none of them.
    pub fn open() -> Result<Self, OpenError> {
        Self::open_from(NAMES)
    }

    fn open_from(names: &[&str]) -> Result<Self, OpenError> {
        let mut words = Vec::new();
        for name in names {
            // SAFETY: loading runs the library's own start-up code and nothing of ours; libcuda allows it on any thread.
            match unsafe { Library::new(*name) } {
                Ok(library) => return Self::load(Box::leak(Box::new(library))),
                Err(refusal) => words.push(refusal.source().map_or_else(|| refusal.to_string(), ToString::to_string)),
            }
        }
        Err(OpenError::NotFound { words: words.join("; ") })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn where_there_is_no_library_the_error_says_what_the_loader_said() {
        let refusal = Cuda::open_from(&["libcuda-of-no-machine.so.1", "libcuda-of-no-machine.so"]).unwrap_err();
        let OpenError::NotFound { words } = &refusal else { panic!("{refusal}") };
        assert!(words.contains("libcuda-of-no-machine.so.1: "), "{words}");
        assert!(words.contains("libcuda-of-no-machine.so: "), "{words}");
        assert!(refusal.to_string().contains("install NVIDIA's driver"), "{refusal}");
    }

    #[test]
    fn a_library_without_the_functions_is_too_old_and_the_first_one_is_named() {
        let refusal = Cuda::open_from(&["libcuda-of-no-machine.so.1", "libc.so.6"]).unwrap_err();
        assert_eq!(refusal, OpenError::TooOld { symbol: "cuInit" });
    }

    #[test]
    fn opening_never_panics_whether_or_not_this_machine_has_a_driver() {
        match Cuda::open() {
            Ok(cuda) => assert!(std::ptr::fn_addr_eq(cuda.cuInit, Cuda::open().unwrap().cuInit)),
            Err(OpenError::NotFound { words }) => assert!(words.contains("libcuda.so.1"), "{words}"),
            Err(OpenError::TooOld { symbol }) => assert!(symbol.starts_with("cu"), "{symbol}"),
        }
    }
}
