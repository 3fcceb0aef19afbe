//! Memory of a pool in two drivers, which stand for two processes: each has its own devices, addresses and
//! ledger, and they meet at the exporter's socket. Real second processes are in the field cases.
#![allow(clippy::unwrap_used, missing_docs)]

mod bench;
mod faults;
mod hostile;
mod offers;
mod recalls;
mod tickets;
mod together;
