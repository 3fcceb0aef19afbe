//! What every driver must do, written once. Each row runs on the host driver, with granules of several
//! sizes, and on CUDA where there is a GPU. Rows for one driver alone say so: what crashes CUDA, or
//! what it is kinder about, is asked of the host driver only.
#![allow(clippy::unwrap_used, missing_docs)]

/// Makes two tests of each row: `on_host::ROW` and `on_cuda::ROW`.
macro_rules! rows {
    (everywhere: $($row:ident),* $(,)?) => {
        mod on_host { $(#[test] fn $row() { crate::rig::on_host(super::$row) })* }
        mod on_cuda { $(#[test] fn $row() { crate::rig::on_cuda(super::$row) })* }
    };
    (host_only: $($row:ident),* $(,)?) => {
        mod host_only { $(#[test] fn $row() { crate::rig::on_host(super::$row) })* }
    };
    (cuda_only: $($row:ident),* $(,)?) => {
        mod cuda_only { $(#[test] fn $row() { crate::rig::on_cuda(super::$row) })* }
    };
}

mod addresses;
mod bytes;
mod capture;
mod child;
mod copies;
mod mappings;
mod order;
mod physical;
mod rig;
mod rights;
mod seams;
mod sharing;
