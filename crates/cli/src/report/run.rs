//! One run as the page reads it: its figures and everything that is drawn of it.

use super::calls::PackedCalls;
use super::frames::{Cell, Frames};
use super::histogram::Histograms;
use super::map::Map;
use super::sampler::{Curves, Sampler};
use super::series::PackedSeries;
use super::summary::Summary;
use serde::Serialize;
use stitchpool_trace::{Source, SourceKind};

/// One run.
#[derive(Debug, Serialize)]
pub struct Run {
    /// The figures that `stitchpool replay --json` prints too, and what follows from them.
    pub figures: Summary,
    /// What recorded the trace.
    recorder: Recorder,
    /// By device of the script.
    devices: Vec<Device>,
    /// All devices together, if there are several.
    total: Option<PackedCurves>,
    calls: PackedCalls,
    map: Map,
    histograms: Histograms,
    /// When requests were refused; the first of them.
    refusals_us: Vec<u64>,
}

/// What recorded a trace.
#[derive(Debug, Serialize)]
pub struct Recorder {
    name: &'static str,
    backend: Option<String>,
    expandable_segments: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Device {
    /// The trace's own number of it.
    ordinal: u32,
    #[serde(flatten)]
    curves: PackedCurves,
}

#[derive(Debug, Serialize)]
struct PackedCurves {
    live: PackedSeries,
    physical: PackedSeries,
    reserved: Option<PackedSeries>,
}

impl Run {
    /// Puts together what was seen, and forgets the rest.
    pub fn new(figures: Summary, recorder: Recorder, ordinals: &[u32], histograms: Histograms, seen: Sampler) -> Self {
        let map = Map::new(&seen.frames, granule_bytes(&seen.frames));
        let device = |(&ordinal, curves)| Device { ordinal, curves: PackedCurves::of(curves) };
        Self {
            figures,
            recorder,
            devices: ordinals.iter().zip(seen.devices).map(device).collect(),
            total: seen.total.map(PackedCurves::of),
            calls: seen.calls.pack(),
            map,
            histograms,
            refusals_us: seen.refusals_us,
        }
    }
}

impl PackedCurves {
    fn of(curves: Curves) -> Self {
        let Curves { live, physical, reserved } = curves;
        Self { live: live.pack(), physical: physical.pack(), reserved: reserved.map(|series| series.pack()) }
    }
}

impl From<&Source> for Recorder {
    fn from(source: &Source) -> Self {
        let name = match source.kind {
            SourceKind::PyTorch => "PyTorch",
            SourceKind::Rmm => "RMM",
        };
        Self { name, backend: source.backend.clone(), expandable_segments: source.expandable_segments }
    }
}

/// The largest power of two that all places and lengths are multiples of.
fn granule_bytes(frames: &Frames) -> u64 {
    let cells = frames.frames.iter().flat_map(|frame| &frame.cells);
    let bits = cells.fold(0, |bits, Cell { place, .. }| bits | place.at.unwrap_or(0) | place.bytes);
    1 << bits.trailing_zeros().min(63)
}
