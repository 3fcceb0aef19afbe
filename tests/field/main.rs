//! The field cases: what went wrong for people who run such pools, each as a test named after it.
//!
//! Sizes are those of the report, or scaled; capacities are exact, so that a case passes with N chunks
//! and fails cleanly with one less. The pool under test runs on the host driver, which refuses all that
//! a GPU refuses.
#![allow(missing_docs, clippy::unwrap_used)]

mod aftermath;
mod background;
mod backup;
mod capture;
mod cleared;
mod contexts;
mod evict;
mod exclusive;
mod faults;
mod growable;
mod growth;
mod headroom;
mod holds;
mod kin;
mod limit;
mod messages;
mod notice;
mod peers;
mod pools;
mod ranges;
mod regrown;
mod relief;
mod resume;
mod rig;
mod rights;
mod setback;
mod shadow;
mod share;
mod sizes;
mod sleep;
mod speed;
mod streams;
mod survey;
mod swap;
mod visibility;
mod watchdog;
mod watching;
