//! The interface as C sees it: the header, the library's symbols, and programs in C that use both.
#![allow(clippy::unwrap_used, missing_docs)]

mod book;
mod compiler;
mod header;
mod programs;
mod rust_side;
mod symbols;
