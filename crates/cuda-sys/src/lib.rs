//! The raw CUDA driver interface: C types, constants and one table of functions, opened from
//! libcuda at run time. No result types, no destructors, no policy: the names and the rules are
//! NVIDIA's. The tables describe themselves, so that `stitchpool-parity` can check every line.

#![allow(non_camel_case_types, non_snake_case)]

mod handle;
mod library;
mod number;
mod open_error;
mod result;
mod structure;
mod table;

pub use handle::*;
pub use number::*;
pub use open_error::OpenError;
pub use result::*;
pub use structure::*;
pub use table::{Cuda, FUNCTIONS, Function};
