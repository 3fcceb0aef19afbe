//! The `stitchpool` command and its replay of traces, in the wheel.

use crate::refused::{Refused, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use stitchpool_cli::args::{DriverChoice, ReplayArgs};

/// Runs the command with these words, the program's name first; what the process shall exit with.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| stitchpool_cli::run(words))
}

/// Plays a trace: its figures, as `stitchpool replay --json` prints them.
#[pyfunction]
#[pyo3(signature = (path, driver = "auto", **keywords))]
pub(crate) fn replay(
    py: Python<'_>,
    path: PathBuf,
    driver: &str,
    keywords: Option<&Bound<'_, PyDict>>,
) -> Result<String> {
    let args = arguments(driver, keywords)?;
    py.detach(|| stitchpool_cli::replay_json(&args, &path))
        .map_err(|error| Refused::request(format!("{}: {error:#}", path.display())))
}

fn arguments(driver: &str, keywords: Option<&Bound<'_, PyDict>>) -> Result<ReplayArgs> {
    let driver = match driver {
        "auto" => DriverChoice::Auto,
        "cuda" => DriverChoice::Cuda,
        "host" => DriverChoice::Host,
        _ => return Err(Refused::request(format!("there is no driver {driver:?}: say auto, cuda or host"))),
    };
    let mut args = ReplayArgs {
        files: Vec::new(),
        driver,
        devices: None,
        capacity: None,
        spill: false,
        scale: 1.0,
        repeat: 1,
        check: false,
        lag_ms: 20,
        pace: false,
        json: true,
    };
    for (key, value) in keywords.into_iter().flatten() {
        match key.extract::<String>()?.as_str() {
            _ if value.is_none() => {}
            "devices" => args.devices = Some(value.extract()?),
            "capacity" => args.capacity = Some(value.str()?.to_string().parse().map_err(Refused::request)?),
            "spill" => args.spill = value.extract()?,
            "scale" => args.scale = value.extract()?,
            "repeat" => args.repeat = value.extract()?,
            "check" => args.check = value.extract()?,
            "lag_ms" => args.lag_ms = value.extract()?,
            "pace" => args.pace = value.extract()?,
            key => {
                let words = "it has devices, capacity, spill, scale, repeat, check, lag_ms, pace";
                return Err(Refused::request(format!("a replay has no setting `{key}`; {words}")));
            }
        }
    }
    let in_range = args.scale.is_finite() && args.scale > 0.0 && args.repeat > 0 && args.devices != Some(0);
    if in_range { Ok(args) } else { Err(Refused::request("scale, repeat and devices must be above 0")) }
}
