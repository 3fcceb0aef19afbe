//! The program as people and scripts use it: its exit status, its JSON, its words.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod bars;
mod book;
mod info;
mod program;
mod replay;
mod report;
mod stress;
mod unusable;
