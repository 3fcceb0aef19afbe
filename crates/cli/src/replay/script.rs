//! What a replay plays: the steps of all devices of a trace in one order, with their sizes scaled.
//! It plays nothing.

use anyhow::{Result, bail};
use stitchpool_trace::{Op, Step, Steps, Trace};

/// A trace, ready to be played.
pub struct Script {
    /// The devices that have anything to play, in the trace's order; they become devices 0, 1 and on.
    pub devices: Vec<Steps>,
    /// The trace's own number of each.
    pub ordinals: Vec<u32>,
    /// All steps in order of time: which device, and which of its steps.
    order: Vec<(u32, u32)>,
    scale: f64,
}

/// What a device holds in live blocks, each rounded up to 512 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    /// Now.
    pub bytes: u64,
    /// At most, since the counting began.
    pub peak_bytes: u64,
}

const ROUNDING_BYTES: u64 = 512;

impl Script {
    /// The devices of `trace` that have allocations.
    pub fn new(trace: &Trace, scale: f64) -> Result<Self> {
        let devices = trace.devices.iter().map(|device| (device.device, device.steps()));
        let (ordinals, devices): (Vec<u32>, Vec<Steps>) =
            devices.filter(|(_, steps)| steps.allocs > 0 || !steps.initial.is_empty()).unzip();
        if devices.is_empty() {
            bail!("the trace allocates nothing on any device: record one with allocations in it");
        }
        let mut order = Vec::new();
        for (device, steps) in (0..).zip(&devices) {
            order.extend((0..).zip(&steps.steps).map(|(index, _)| (device, index)));
        }
        if devices.len() > 1 {
            order.sort_by_key(|&(device, index)| devices[device as usize].steps[index as usize].time_us);
        }
        Ok(Self { devices, ordinals, order, scale })
    }

    /// All steps in order of time, each with its device.
    pub fn steps(&self) -> impl Iterator<Item = (usize, Step)> {
        self.order.iter().map(|&(device, index)| {
            let device = device as usize;
            (device, self.devices[device].steps[index as usize])
        })
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.order.len() as u64
    }

    /// A size of the trace, scaled; 1 at least.
    pub fn scaled(&self, size_bytes: u64) -> u64 {
        if self.scale == 1.0 { size_bytes.max(1) } else { ((size_bytes as f64 * self.scale) as u64).max(1) }
    }

    /// What every size is multiplied by.
    pub const fn scale(&self) -> f64 {
        self.scale
    }

    /// Microseconds from the first event to the last.
    pub fn duration_us(&self) -> u64 {
        self.devices.iter().map(|steps| steps.duration_us).max().unwrap_or(0)
    }

    /// The most that a device's blocks take up at once, scaled.
    pub fn peak_live_bytes(&self, device: usize) -> u64 {
        let steps = &self.devices[device];
        let mut live = Live::default();
        let mut sizes: Vec<u64> = steps.initial.iter().map(|block| self.scaled(block.size_bytes)).collect();
        sizes.iter().for_each(|&bytes| live.add(bytes));
        for step in &steps.steps {
            match step.op {
                Op::Alloc { size_bytes, .. } => {
                    sizes.push(self.scaled(size_bytes));
                    live.add(self.scaled(size_bytes));
                }
                Op::Free { id } | Op::FreeRequested { id } => live.take(sizes[id as usize]),
                Op::FreeCompleted { .. } => {}
            }
        }
        live.peak_bytes
    }
}

impl Live {
    /// A block of `bytes` begins.
    pub fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(rounded(bytes));
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }

    /// A block of `bytes` ends.
    pub fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(rounded(bytes));
    }
}

const fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(ROUNDING_BYTES).saturating_mul(ROUNDING_BYTES)
}
