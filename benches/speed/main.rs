//! Nanoseconds of the hit path, beside indexes that others use. All requests are hits on the host
//! driver, so no driver call and no byte of the memory is in the figures.
//!
//! `cargo bench --bench speed -- pairs` (or `churn`, `growth`, `holes`, `traces`, `threads`).
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod churn;
mod contender;
mod growth;
mod pairs;
mod rivals;
mod script;
mod threads;
mod traces;

use criterion::{Criterion, criterion_group, criterion_main};
use std::time::Duration;

fn short() -> Criterion {
    let criterion = Criterion::default().sample_size(20);
    criterion.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1))
}

criterion_group! {
    name = speed;
    config = short();
    targets = pairs::pairs, pairs::churn, growth::growth, growth::holes, traces::traces, threads::threads
}
criterion_main!(speed);
