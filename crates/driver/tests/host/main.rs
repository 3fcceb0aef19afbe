//! What the host driver does beyond the seam: streams moved by hand or by a clock, faults, limits,
//! oddities of other drivers, and the ledger that tests look at.
#![allow(clippy::unwrap_used, missing_docs)]

mod bench;
mod capture;
mod clock;
mod config;
mod fork;
mod hand;
mod limits;
mod memory;
mod model;
mod order;
mod quirks;
