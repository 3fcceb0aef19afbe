//! What stress prints. The names are the interface to scripts.

use super::rig::Left;
use super::worker::Counts;
use serde::Serialize;
use stitchpool_driver::Tally;
use stitchpool_pool::Stats;

/// The figures of a run.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// `cuda` or `host`.
    pub driver: &'static str,
    /// Devices.
    pub devices: u16,
    /// Threads.
    pub threads: usize,
    /// Streams that the threads shared.
    pub streams: usize,
    /// Wall clock.
    pub seconds: f64,
    /// Moves of all threads.
    pub ops: u64,
    /// Blocks allocated.
    pub allocs: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Times a block was used on another stream.
    pub lends: u64,
    /// Blocks handed from thread to thread.
    pub handovers: u64,
    /// Streams ended and begun.
    pub streams_replaced: u64,
    /// Times memory was given back, or tried to be.
    pub trims: u64,
    /// Bytes compared.
    pub checked_bytes: u64,
    /// Bytes that differed.
    pub wrong_bytes: u64,
    /// Accesses without mapping, rights or order, which the host driver counts.
    pub access_faults: u64,
    /// Requests refused for want of memory.
    pub refused: u64,
    /// Refusals that failing calls led to.
    pub errors: u64,
    /// Driver calls that were made to fail.
    pub calls_failed: u64,
    /// Things the driver refused to take back.
    pub quarantined: u64,
    /// Highest physical bytes, of all devices.
    pub peak_physical_bytes: u64,
    /// Requests that found no free extent.
    pub misses: u64,
    /// Handles moved by an alias.
    pub handles_aliased: u64,
    /// Times that one stream was made to wait for another.
    pub stream_waits: u64,
    /// Times that the CPU waited for the GPU.
    pub gpu_waits: u64,
    /// Handles not given back, those in quarantine excepted.
    pub leaked_handles: u64,
    /// Reservations not given back, those that quarantine holds excepted.
    pub leaked_reservations: u64,
    /// Events not given back, those in quarantine excepted.
    pub leaked_events: u64,
    /// What the random choices began with.
    pub seed: u64,
    /// Whether all bytes stayed, nothing leaked, and nothing unexpected was refused.
    pub ok: bool,
    /// What went wrong.
    pub failures: Vec<String>,
}

/// What a run was, and what was seen of it.
pub struct Outcome {
    /// The driver's name.
    pub driver: &'static str,
    /// Devices.
    pub devices: u16,
    /// Shared streams.
    pub streams: usize,
    /// Wall clock.
    pub seconds: f64,
    /// What the random choices began with.
    pub seed: u64,
    /// Of all threads.
    pub counts: Vec<Counts>,
    /// The pool's figures when all was freed.
    pub stats: Stats,
    /// What checks found.
    pub tally: Tally,
    /// What the pool left behind.
    pub left: Left,
    /// Driver calls that were made to fail.
    pub calls_failed: u64,
    /// What went wrong on the way.
    pub failures: Vec<String>,
}

impl Figures {
    /// Sums up and judges.
    pub fn new(outcome: Outcome) -> Self {
        let Outcome { counts, stats, tally, left, mut failures, .. } = outcome;
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
        let quarantined = stats.quarantined;
        let leaked_handles = left.handles.saturating_sub(quarantined);
        let leaked_events = left.events.saturating_sub(quarantined);
        let leaked_reservations = left.reservations.saturating_sub(quarantined);
        if tally.wrong_bytes > 0 {
            failures.push(format!("{} of {} bytes differed", tally.wrong_bytes, tally.checked_bytes));
        }
        failures.extend(tally.faults.iter().take(FAULTS_TOLD).cloned());
        for (count, what) in
            [(leaked_handles, "handles"), (leaked_reservations, "reservations"), (leaked_events, "events")]
        {
            if count > 0 {
                failures.push(format!("{count} {what} were not given back"));
            }
        }
        Self {
            driver: outcome.driver,
            devices: outcome.devices,
            threads: counts.len(),
            streams: outcome.streams,
            seconds: outcome.seconds,
            ops: sum(|counts| counts.ops),
            allocs: sum(|counts| counts.allocs),
            frees: sum(|counts| counts.frees),
            lends: sum(|counts| counts.lends),
            handovers: sum(|counts| counts.handovers),
            streams_replaced: sum(|counts| counts.streams_replaced),
            trims: sum(|counts| counts.trims),
            checked_bytes: tally.checked_bytes,
            wrong_bytes: tally.wrong_bytes,
            access_faults: tally.faults.len() as u64,
            refused: sum(|counts| counts.refused),
            errors: sum(|counts| counts.errors),
            calls_failed: outcome.calls_failed,
            quarantined,
            peak_physical_bytes: stats.devices.iter().map(|device| device.physical_peak_bytes).sum(),
            misses: stats.misses,
            handles_aliased: stats.handles_aliased,
            stream_waits: stats.stream_waits,
            gpu_waits: stats.cpu_waits,
            leaked_handles,
            leaked_reservations,
            leaked_events,
            seed: outcome.seed,
            ok: failures.is_empty(),
            failures,
        }
    }
}

const FAULTS_TOLD: usize = 8;
