//! What the crate promises, checked from outside: formats, shapes, steps, writing, hostile files.
#![allow(clippy::unwrap_used, missing_docs)]

mod data;
mod formats;
mod fuzz;
mod hostile;
mod rmm;
mod round_trip;
mod samples;
mod shapes;
mod steps;
