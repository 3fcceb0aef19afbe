//! Looks on while a trace is played and keeps what the page shows, in bounded room however long the trace is.

use super::calls::{Calls, Stall};
use super::frames::Frames;
use super::series::Series;
use super::span::Span;
use crate::replay::books::Books;
use crate::replay::rig::Rig;
use crate::replay::script::Script;
use crate::replay::witness::{Sight, Witness};
use stitchpool_driver::Verb;
use stitchpool_trace::{Reserved, Trace};

/// What was seen of one run.
pub struct Sampler {
    /// By device of the script.
    pub devices: Vec<Curves>,
    /// The sums over all devices, if there are several.
    pub total: Option<Curves>,
    /// What the driver was asked.
    pub calls: Calls,
    /// What stood where.
    pub frames: Frames,
    /// When requests were refused; the first of them.
    pub refusals_us: Vec<u64>,
    time_us: u64,
    refused: u64,
    /// The most physical bytes of each device so far.
    peaks_bytes: Vec<u64>,
}

/// The bytes of one device, or of all, over time.
#[derive(Clone, Debug)]
pub struct Curves {
    /// In live blocks.
    pub live: Series,
    /// Held by the pool.
    pub physical: Series,
    /// Held by the recorded allocator, where the trace says so.
    pub reserved: Option<Series>,
}

/// All devices' curves together have about so many bins.
const BINS_ALL: usize = 32_768;
const BINS_MIN: usize = 2_048;
const BINS_MAX: usize = 16_384;
const CALL_BINS: usize = 2_048;
const REFUSALS_MAX: usize = 256;

impl Sampler {
    /// Nothing seen yet of a trace that will be played so many times.
    pub fn new(trace: &Trace, script: &Script, rounds: u32) -> Self {
        let duration_us = script.duration_us().saturating_mul(u64::from(rounds));
        let devices = script.devices.len();
        let span = Span { duration_us, bins: (BINS_ALL / devices).clamp(BINS_MIN, BINS_MAX) };
        let held = |&ordinal| trace.device(ordinal).map(|device| device.reserved_over_time()).unwrap_or_default();
        let reserved: Vec<Vec<Reserved>> = script.ordinals.iter().map(held).collect();
        Self {
            total: (devices > 1).then(|| Curves::new(span, &together(&reserved))),
            devices: reserved.iter().map(|steps| Curves::new(span, steps)).collect(),
            calls: Calls::new(Span { duration_us, bins: CALL_BINS }),
            frames: Frames::new(duration_us),
            refusals_us: Vec::new(),
            time_us: 0,
            refused: 0,
            peaks_bytes: vec![0; devices],
        }
    }

    fn reach(&mut self, time_us: u64, rig: &Rig) {
        self.frames.reach(time_us, || rig.pool.survey());
        self.time_us = time_us;
    }

    fn step_live(&mut self, device: usize, books: &Books) {
        self.devices[device].live.step(self.time_us, books.devices[device].live.bytes);
        if let Some(total) = &mut self.total {
            total.live.step(self.time_us, books.devices.iter().map(|books| books.live.bytes).sum());
        }
    }

    /// Only after calls of the driver: nothing else changes what the pool holds.
    fn step_physical(&mut self, books: &Books) {
        let mut high_bytes = 0;
        for ((curves, books), peak_bytes) in self.devices.iter_mut().zip(&books.devices).zip(&mut self.peaks_bytes) {
            // A peak inside one call is known where it is the highest ever.
            let is_record = books.physical_peak_bytes > *peak_bytes;
            let highest_bytes = if is_record { books.physical_peak_bytes } else { books.physical_bytes };
            *peak_bytes = books.physical_peak_bytes;
            high_bytes += highest_bytes;
            curves.physical.step(self.time_us, highest_bytes);
            curves.physical.step(self.time_us, books.physical_bytes);
        }
        if let Some(total) = &mut self.total {
            total.physical.step(self.time_us, high_bytes);
            total.physical.step(self.time_us, books.devices.iter().map(|books| books.physical_bytes).sum());
        }
    }

    fn alloc(&mut self, (device, bytes, cost_us): (usize, u64, f64), rig: &Rig, books: &Books) {
        self.step_live(device, books);
        if books.oom > self.refused && self.refusals_us.len() < REFUSALS_MAX {
            self.refusals_us.push(self.time_us);
        }
        self.refused = books.oom;
        if cost_us > 0.0 {
            self.step_physical(books);
            let time_us = self.time_us;
            let spent = self.calls.count(time_us, rig.metered.spent());
            let calls = |verb| spent.of(verb).calls;
            let (created, mapped, unmapped) = (calls(Verb::Create), calls(Verb::Map), calls(Verb::Unmap));
            if mapped > 0 {
                self.frames.moved(time_us, || rig.pool.survey());
            }
            self.calls.note(Stall { time_us, device, bytes, cost_us, created, mapped, unmapped });
        }
    }
}

impl Witness for Sampler {
    fn see(&mut self, sight: Sight, rig: &Rig, books: &Books) {
        match sight {
            Sight::Time { time_us } => self.reach(time_us, rig),
            Sight::Alloc { device, bytes, cost_us } => self.alloc((device, bytes, cost_us), rig, books),
            Sight::Free { device, cost_us } => {
                self.step_live(device, books);
                if cost_us > 0.0 {
                    self.step_physical(books);
                    self.calls.count(self.time_us, rig.metered.spent());
                }
            }
            Sight::End => {
                self.frames.end(self.time_us, &rig.pool.survey());
                self.calls.count(self.time_us, rig.metered.spent());
            }
        }
    }
}

impl Curves {
    fn new(span: Span, reserved: &[Reserved]) -> Self {
        let held = (!reserved.is_empty()).then(|| {
            let mut series = Series::new(span);
            reserved.iter().for_each(|step| series.step(step.time_us, step.bytes));
            series
        });
        Self { live: Series::new(span), physical: Series::new(span), reserved: held }
    }
}

/// What all devices held at each change of any. Empty iff one does not say.
fn together(reserved: &[Vec<Reserved>]) -> Vec<Reserved> {
    if reserved.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let changes = (0..).zip(reserved).flat_map(|(device, steps)| steps.iter().map(move |step| (device, *step)));
    let mut changes: Vec<(usize, Reserved)> = changes.collect();
    changes.sort_by_key(|(_, step)| step.time_us);
    let mut held_bytes = vec![0_u64; reserved.len()];
    let sum = |(device, step): (usize, Reserved)| {
        held_bytes[device] = step.bytes;
        Reserved { time_us: step.time_us, bytes: held_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)) }
    };
    changes.into_iter().map(sum).collect()
}
