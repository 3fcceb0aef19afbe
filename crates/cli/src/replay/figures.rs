//! What a replay prints of one trace. The names are the interface to scripts.

use super::books::{Books, Round, ratio};
use super::rig::Rig;
use super::script::Script;
use super::timing::Timing;
use serde::Serialize;
use std::collections::BTreeMap;
use stitchpool_driver::{Tally, Verb};
use stitchpool_pool::Stats;

/// The figures of one trace. Bytes and counts are summed over its devices, unless they say otherwise.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// The file.
    pub trace: String,
    /// `cuda` or `host`.
    pub driver: &'static str,
    /// Devices in the pool.
    pub devices: usize,
    /// Streams of the trace.
    pub streams: usize,
    /// How often it was played.
    pub repeat: u32,
    /// Every size was multiplied by it.
    pub scale: f64,
    /// What the pool was allowed of each device.
    pub limit_bytes: u64,
    /// Requests.
    pub allocs: u64,
    /// Frees by the application.
    pub frees: u64,
    /// Frees of the trace that belong to no allocation of it.
    pub skipped_frees: u64,
    /// Blocks that stood before the trace.
    pub initial_blocks: u64,
    /// Highest sum of live requests, each rounded to 512 bytes.
    pub peak_live_bytes: u64,
    /// Highest physical bytes.
    pub peak_physical_bytes: u64,
    /// Highest physical over highest live bytes, of the worst device.
    pub ratio: f64,
    /// Physical bytes after the last step.
    pub end_physical_bytes: u64,
    /// What the recorded allocator held at most, where the trace says so; not scaled.
    pub peak_reserved_bytes: Option<u64>,
    /// That, over its own highest live bytes.
    pub reserved_ratio: Option<f64>,
    /// Bytes of all requests that came to lie on another device than their stream's.
    pub remote_bytes: u64,
    /// The most of those at any one time.
    pub remote_peak_bytes: u64,
    /// Requests served with no call that creates or maps.
    pub hits: u64,
    /// Requests served with one.
    pub misses: u64,
    /// Handles created.
    pub handles_created: u64,
    /// Handles moved by an alias.
    pub handles_aliased: u64,
    /// Mappings taken down.
    pub handles_unmapped: u64,
    /// Mappings that still wait to be taken down.
    pub stale_mappings: u64,
    /// Bytes created beyond the highest live bytes of that time.
    pub forced_bytes: u64,
    /// Times that the CPU waited for the GPU.
    pub gpu_waits: u64,
    /// Times that one stream was made to wait for another.
    pub stream_waits: u64,
    /// Of those in the second half of the time.
    pub stream_waits_second_half: u64,
    /// Time in driver calls: measured on CUDA, priced on the host driver.
    pub driver_us: f64,
    /// Of that in the second half of the time.
    pub driver_us_second_half: f64,
    /// The highest cost of one request.
    pub largest_stall_us: f64,
    /// The trace's own time, of one playing.
    pub duration_us: u64,
    /// Wall clock in the pool for an allocation with its free, driver calls excluded.
    pub ns_per_pair: f64,
    /// The same when played again on a pool that has all its memory.
    pub ns_per_pair_warm: f64,
    /// Host memory that the pool takes for itself.
    pub metadata_bytes: u64,
    /// Requests refused.
    pub oom: u64,
    /// Other calls refused.
    pub refused: u64,
    /// The first refusal's words.
    pub first_refusal: Option<String>,
    /// Bytes compared.
    pub checked_bytes: u64,
    /// Bytes that differed.
    pub wrong_bytes: u64,
    /// Accesses without mapping or rights, which the host driver counts.
    pub faults: u64,
    /// The first of them.
    pub first_fault: Option<String>,
    /// By device.
    pub per_device: Vec<DeviceFigures>,
    /// By playing.
    pub rounds: Vec<Round>,
    /// Driver calls by verb.
    pub verbs: BTreeMap<&'static str, VerbFigures>,
}

/// The figures of one device.
#[derive(Debug, Serialize)]
pub struct DeviceFigures {
    /// Highest live bytes.
    pub peak_live_bytes: u64,
    /// Highest physical bytes.
    pub peak_physical_bytes: u64,
    /// Highest physical over highest live bytes.
    pub ratio: f64,
}

/// The calls of one verb.
#[derive(Debug, Serialize)]
pub struct VerbFigures {
    /// How many.
    pub calls: u64,
    /// What they cost.
    pub cost_us: f64,
}

/// What a run left behind, for its figures.
pub struct Outcome {
    /// The driver's name.
    pub driver: &'static str,
    /// What was counted on the way.
    pub books: Books,
    /// The pool's figures after the last step.
    pub stats: Stats,
    /// The driver's calls until then.
    pub verbs: BTreeMap<&'static str, VerbFigures>,
    /// What checks found.
    pub tally: Tally,
    /// From the run made for it.
    pub timing: Timing,
}

impl Figures {
    /// The figures of a trace that was played.
    pub fn new(trace: String, script: &Script, outcome: Outcome) -> Self {
        let Outcome { driver, books, stats, verbs, tally, timing } = outcome;
        let per_device: Vec<DeviceFigures> = books.devices.iter().map(DeviceFigures::from).collect();
        let sum = |of: fn(&stitchpool_trace::Steps) -> u64| script.devices.iter().map(of).sum::<u64>();
        let reserved: Option<Vec<u64>> = script.devices.iter().map(|steps| steps.peak_reserved_bytes).collect();
        let peak_reserved_bytes = reserved.map(|devices| devices.iter().sum::<u64>());
        Self {
            trace,
            driver,
            devices: stats.devices.len(),
            streams: script.devices.iter().map(|steps| steps.streams.len()).sum(),
            repeat: books.rounds.len() as u32,
            scale: script.scale(),
            limit_bytes: stats.devices.iter().map(|device| device.holdings.limit_bytes).min().unwrap_or(0),
            allocs: books.hits + books.misses + books.oom,
            frees: books.frees,
            skipped_frees: sum(|steps| steps.skipped_frees),
            initial_blocks: sum(|steps| steps.initial.len() as u64),
            peak_live_bytes: per_device.iter().map(|device| device.peak_live_bytes).sum(),
            peak_physical_bytes: per_device.iter().map(|device| device.peak_physical_bytes).sum(),
            ratio: per_device.iter().map(|device| device.ratio).fold(0.0, f64::max),
            end_physical_bytes: stats.devices.iter().map(|device| device.holdings.physical_bytes).sum(),
            peak_reserved_bytes,
            reserved_ratio: peak_reserved_bytes.map(|bytes| ratio(bytes, sum(|steps| steps.peak_live_bytes))),
            remote_bytes: books.remote_bytes,
            remote_peak_bytes: books.remote.peak_bytes,
            hits: books.hits,
            misses: books.misses,
            handles_created: stats.handles_created,
            handles_aliased: stats.handles_aliased,
            handles_unmapped: stats.handles_unmapped,
            stale_mappings: stats.stale_mappings,
            forced_bytes: stats.forced_bytes,
            gpu_waits: stats.cpu_waits,
            stream_waits: stats.stream_waits,
            stream_waits_second_half: stats.stream_waits - books.stream_waits_first_half.unwrap_or(stats.stream_waits),
            driver_us: books.driver_us,
            driver_us_second_half: books.driver_us_second_half,
            largest_stall_us: books.largest_stall_us,
            duration_us: script.duration_us(),
            ns_per_pair: timing.ns_per_pair,
            ns_per_pair_warm: timing.ns_per_pair_warm,
            metadata_bytes: stats.metadata_bytes,
            oom: books.oom,
            refused: books.refused,
            first_refusal: books.first_refusal,
            checked_bytes: tally.checked_bytes,
            wrong_bytes: tally.wrong_bytes,
            faults: tally.faults.len() as u64,
            first_fault: tally.faults.into_iter().next(),
            per_device,
            rounds: books.rounds,
            verbs,
        }
    }

    /// Whether nothing was refused and nothing was wrong.
    pub const fn is_good(&self) -> bool {
        self.oom == 0 && self.refused == 0 && self.wrong_bytes == 0 && self.faults == 0
    }
}

impl From<&super::books::DeviceBooks> for DeviceFigures {
    fn from(books: &super::books::DeviceBooks) -> Self {
        let (peak_live_bytes, peak_physical_bytes) = (books.live.peak_bytes, books.physical_peak_bytes);
        Self { peak_live_bytes, peak_physical_bytes, ratio: ratio(peak_physical_bytes, peak_live_bytes) }
    }
}

/// The driver's calls so far, those verbs that were called.
pub fn verbs(rig: &Rig) -> BTreeMap<&'static str, VerbFigures> {
    let spent = rig.metered.spent();
    let all = Verb::ALL.iter().map(|&verb| (verb.word(), spent.of(verb)));
    let called = all.filter(|(_, spent)| spent.calls > 0);
    called.map(|(word, spent)| (word, VerbFigures { calls: spent.calls, cost_us: spent.cost_us })).collect()
}
