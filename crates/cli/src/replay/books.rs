//! What is counted while a trace is played. It plays nothing.

use super::rig::{Rig, Spread};
use super::script::Live;
use serde::Serialize;
use stitchpool_driver::{Spent, Verb};

/// The counts of one run.
pub struct Books {
    /// Requests served without a call that creates or maps.
    pub hits: u64,
    /// Requests served with one.
    pub misses: u64,
    /// Requests refused.
    pub oom: u64,
    /// Blocks freed by the trace.
    pub frees: u64,
    /// Other calls refused. None should be.
    pub refused: u64,
    /// The first refusal's words.
    pub first_refusal: Option<String>,
    /// Price of all driver calls, in microseconds.
    pub driver_us: f64,
    /// Of those in the second half of the run's time.
    pub driver_us_second_half: f64,
    /// The highest price of a single request's calls.
    pub largest_stall_us: f64,
    /// Waits of one stream for another in the first half.
    pub stream_waits_first_half: Option<u64>,
    /// Live bytes that lie on another device than their stream's.
    pub remote: Live,
    /// Bytes of all requests that came to lie so.
    pub remote_bytes: u64,
    /// By device, over the whole run.
    pub devices: Vec<DeviceBooks>,
    /// The rounds that are over.
    pub rounds: Vec<Round>,
    half_us: u64,
    now_us: u64,
    round_driver_us: f64,
    read: Spent,
}

/// The counts of one device.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceBooks {
    /// Live bytes over the whole run.
    pub live: Live,
    /// Physical bytes now.
    pub physical_bytes: u64,
    /// The most physical bytes over the whole run.
    pub physical_peak_bytes: u64,
    round_live_peak_bytes: u64,
    round_physical_peak_bytes: u64,
}

/// What one playing of the trace came to.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Summed over devices.
    pub peak_live_bytes: u64,
    /// Summed over devices.
    pub peak_physical_bytes: u64,
    /// Of the worst device.
    pub ratio: f64,
    /// Price of its driver calls, in microseconds.
    pub driver_us: f64,
}

/// What a call of the pool made of the driver.
pub struct Charge {
    /// What it cost, in microseconds.
    pub cost_us: f64,
    /// Whether it created or mapped.
    pub is_stitched: bool,
}

impl Books {
    /// Nothing counted yet; the run lasts `duration_us`.
    pub fn new(rig: &Rig, duration_us: u64) -> Self {
        let read = rig.metered.spent();
        let opening_us = read.total().cost_us;
        Self {
            hits: 0,
            misses: 0,
            oom: 0,
            frees: 0,
            refused: 0,
            first_refusal: None,
            driver_us: opening_us,
            driver_us_second_half: 0.0,
            largest_stall_us: 0.0,
            stream_waits_first_half: None,
            remote: Live::default(),
            remote_bytes: 0,
            devices: vec![DeviceBooks::default(); rig.places()],
            rounds: Vec::new(),
            half_us: duration_us / 2,
            now_us: 0,
            round_driver_us: opening_us,
            read,
        }
    }

    /// The run has come to a time.
    pub fn reach(&mut self, rig: &Rig, time_us: u64) {
        self.now_us = time_us;
        if self.stream_waits_first_half.is_none() && time_us >= self.half_us {
            self.stream_waits_first_half = Some(rig.pool.stats().stream_waits);
        }
    }

    /// Counts what the pool has made of the driver since the last charge.
    pub fn charge(&mut self, rig: &Rig) -> Charge {
        let spent = rig.metered.spent();
        let calls = |verb| spent.of(verb).calls - self.read.of(verb).calls;
        let (created, released) = (calls(Verb::Create) > 0, calls(Verb::Release) > 0);
        let is_stitched = created || calls(Verb::Map) > 0;
        let cost_us = spent.total().cost_us - self.read.total().cost_us;
        self.read = spent;
        self.driver_us += cost_us;
        self.round_driver_us += cost_us;
        if self.now_us >= self.half_us {
            self.driver_us_second_half += cost_us;
        }
        if created || released {
            self.weigh(rig);
        }
        Charge { cost_us, is_stitched }
    }

    /// A block begins.
    pub fn begin(&mut self, spread: &Spread) {
        for (device, bytes) in spread.parts() {
            let books = &mut self.devices[device];
            books.live.add(bytes);
            books.round_live_peak_bytes = books.round_live_peak_bytes.max(books.live.bytes);
        }
        self.remote.add(spread.remote_bytes());
        self.remote_bytes += spread.remote_bytes();
    }

    /// A block ends.
    pub fn end(&mut self, spread: &Spread) {
        spread.parts().for_each(|(device, bytes)| self.devices[device].live.take(bytes));
        self.remote.take(spread.remote_bytes());
    }

    /// Keeps the words of the first refusal.
    pub fn note(&mut self, words: impl FnOnce() -> String) {
        self.first_refusal.get_or_insert_with(words);
    }

    /// Closes a round.
    pub fn close_round(&mut self) {
        let pairs = self.devices.iter().map(|books| (books.round_physical_peak_bytes, books.round_live_peak_bytes));
        let pairs: Vec<(u64, u64)> = pairs.collect();
        self.rounds.push(Round {
            peak_live_bytes: pairs.iter().map(|pair| pair.1).sum(),
            peak_physical_bytes: pairs.iter().map(|pair| pair.0).sum(),
            ratio: pairs.iter().map(|&(physical, live)| ratio(physical, live)).fold(0.0, f64::max),
            driver_us: std::mem::take(&mut self.round_driver_us),
        });
    }

    /// Opens the next round: its peaks begin at what is there now.
    pub fn open_round(&mut self, rig: &Rig) {
        for books in &mut self.devices {
            books.round_live_peak_bytes = books.live.bytes;
            books.round_physical_peak_bytes = 0;
        }
        self.weigh(rig);
    }

    /// Asks the pool what it holds. Only after calls that changed it, since the pool counts afresh.
    fn weigh(&mut self, rig: &Rig) {
        let stats = rig.pool.stats();
        for (books, device) in self.devices.iter_mut().zip(&stats.devices) {
            // A peak inside one call is seen by the pool alone; where it is the highest ever, it is known.
            let is_record = device.physical_peak_bytes > books.physical_peak_bytes;
            let peak_bytes = if is_record { device.physical_peak_bytes } else { device.holdings.physical_bytes };
            books.physical_bytes = device.holdings.physical_bytes;
            books.physical_peak_bytes = device.physical_peak_bytes;
            books.round_physical_peak_bytes = books.round_physical_peak_bytes.max(peak_bytes);
        }
        self.read = rig.metered.spent();
    }
}

/// How much more was held than was needed.
pub fn ratio(physical_bytes: u64, live_bytes: u64) -> f64 {
    if live_bytes == 0 { 1.0 } else { physical_bytes as f64 / live_bytes as f64 }
}
