//! Second addresses and rights: views, leases and rights that are set at run time, against a shadow, with
//! every driver call failing in turn, on devices of which not all reach each other.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod bench;
mod faults;
mod hold;
mod model;
mod op;
#[path = "../rig/mod.rs"]
mod rig;
mod rights;
mod shadow;
mod world;
