//! `stitchpool stress`: all stays well, also where the driver fails, and a seed says what happens.

use crate::program::{count, run};
use serde_json::Value;

fn stress(words: &[&str]) -> Value {
    let all: Vec<&str> = ["stress", "--driver", "host", "--json"].iter().chain(words).copied().collect();
    run(&all).object()
}

fn demand_well(figures: &Value) {
    assert_eq!(figures["ok"], true, "{figures}");
    for field in ["wrong_bytes", "access_faults", "leaked_handles", "leaked_reservations", "leaked_events"] {
        assert_eq!(count(figures, field), 0, "{field} in {figures}");
    }
    assert!(count(figures, "checked_bytes") > 0 && count(figures, "ops") > 0, "{figures}");
    assert_eq!(count(figures, "allocs"), count(figures, "frees"), "{figures}");
}

#[test]
fn one_thread_keeps_every_byte_for_two_seconds() {
    let figures = stress(&["--seconds", "2", "--threads", "1", "--streams", "3"]);
    demand_well(&figures);
    assert_eq!((count(&figures, "errors"), count(&figures, "calls_failed")), (0, 0));
}

#[test]
fn three_threads_and_two_devices_keep_every_byte_for_two_seconds() {
    let figures = stress(&["--seconds", "2", "--threads", "3", "--streams", "4", "--devices", "2"]);
    demand_well(&figures);
    assert!(count(&figures, "handovers") > 0 && count(&figures, "lends") > 0, "{figures}");
}

#[test]
fn a_driver_that_fails_now_and_then_costs_no_byte_and_no_handle() {
    let figures = stress(&["--ops", "4000", "--threads", "2", "--faults", "--seed", "11"]);
    demand_well(&figures);
    assert!(count(&figures, "calls_failed") > 0, "{figures}");
}

#[test]
fn with_one_thread_a_seed_does_the_same_again() {
    let play = |seed, faults: &[&str]| {
        let words: Vec<&str> =
            ["--threads", "1", "--ops", "700", "--seed", seed].iter().chain(faults).copied().collect();
        let mut figures = stress(&words);
        figures.as_object_mut().unwrap().remove("seconds");
        figures
    };
    let first = play("42", &[]);
    assert_eq!(count(&first, "ops"), 700);
    assert_eq!(first, play("42", &[]));
    assert_ne!(first["allocs"], play("43", &[])["allocs"]);
    assert_eq!(play("42", &["--faults"]), play("42", &["--faults"]));
}

#[test]
fn operations_are_dealt_to_all_threads() {
    assert_eq!(count(&stress(&["--ops", "1001", "--threads", "4"]), "ops"), 1001);
}

#[test]
fn memory_that_is_too_small_is_refused_and_nothing_worse() {
    let figures = stress(&["--ops", "2000", "--threads", "2", "--capacity", "16MiB"]);
    demand_well(&figures);
    assert!(count(&figures, "refused") > 0, "{figures}");
    assert!(count(&figures, "peak_physical_bytes") <= 16 << 20, "{figures}");
}
