//! Checks that our raw CUDA interface agrees with two sources that are not ours: the crate
//! cuda-driver-sys (CUDA 10.2; types, values and signatures, by the Rust compiler) and NVIDIA's own
//! header (any version; every line of our tables, by a C compiler). This library writes our tables
//! as statements in C; the tests put them to the compilers. Nothing of CUDA is ever called.

mod c_type;
mod statement;

pub use statement::statements;
