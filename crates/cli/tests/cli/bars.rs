//! The bars that the pool must clear on all recorded runs, where these lie beside the project.

use crate::program::{count, figure, run, word};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Plays every recorded run; none where they are not there.
fn play(options: &[&str]) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let words: Vec<&str> = ["replay", "--driver", "host", "--json"]
        .into_iter()
        .chain(options.iter().copied())
        .chain(paths.iter().map(|path| word(path)))
        .collect();
    let played = run(&words).objects();
    assert_eq!(played.len(), paths.len());
    played
}

/// Every recorded run on a device as large as the card's, played once for all tests.
fn unlimited() -> &'static [Value] {
    static PLAYED: OnceLock<Vec<Value>> = OnceLock::new();
    PLAYED.get_or_init(|| play(&[]))
}

fn name(figures: &Value) -> String {
    let path = Path::new(figures["trace"].as_str().unwrap());
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn recorded_runs_hold_hardly_more_than_they_need() {
    let mut single = Vec::new();
    for figures in unlimited() {
        let (name, ratio) = (name(figures), figure(figures, "ratio"));
        let bar = if name.starts_with("fsdp1_lora") { 1.015 } else { 1.012 };
        assert!(ratio <= bar, "{name}: {ratio} is above {bar}");
        if count(figures, "streams") == 1 {
            single.push(ratio);
        }
    }
    let mean = single.iter().sum::<f64>() / single.len().max(1) as f64;
    assert!(mean <= 1.006, "the mean of {single:?} is {mean}");
}

#[test]
fn recorded_runs_settle_down() {
    for figures in unlimited() {
        let name = name(figures);
        assert_eq!((count(figures, "oom"), count(figures, "gpu_waits")), (0, 0), "{name}");
        let half_us = figure(figures, "duration_us") / 2.0;
        let share = figure(figures, "driver_us_second_half") / half_us;
        assert!(share <= 0.005, "{name}: {:.3} % of the second half is spent in the driver", share * 100.0);
        assert!(count(figures, "stream_waits") <= 30, "{name}: {figures}");
        assert_eq!(count(figures, "stream_waits_second_half"), 0, "{name}");
    }
}

#[test]
fn recorded_runs_fit_into_a_fiftieth_more_than_they_need() {
    for figures in play(&["--capacity", "1.02x"]) {
        assert_eq!((count(&figures, "oom"), count(&figures, "gpu_waits")), (0, 0), "{}", name(&figures));
    }
}
