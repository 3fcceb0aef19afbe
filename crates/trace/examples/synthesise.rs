//! Writes a snapshot of a made-up training run, to measure what long traces cost:
//! `cargo run --release --example synthesise -- EVENTS FILE`

use std::error::Error;
use std::fs::File;
use stitchpool_trace::{DeviceTrace, Event, EventKind, Trace, write_snapshot};

const MIB: u64 = 1 << 20;
/// Activations of so many layers are taken on the way forward and freed on the way back.
const LAYERS: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(count), Some(path)) = (words.next(), words.next()) else {
        return Err("name the number of events and the file to write".into());
    };
    let device = DeviceTrace { device: 0, events: run(count.parse()?), segments: Vec::new() };
    let trace = Trace { devices: vec![device], ..Trace::default() };
    Ok(write_snapshot(&trace, File::create(path)?)?)
}

/// Steps of random batch size until there are `count` events.
fn run(count: usize) -> Vec<Event> {
    let mut log =
        Log { events: Vec::with_capacity(count + 1000), next: 1 << 40, dice: 1, held_bytes: 0, live_bytes: 0 };
    while log.events.len() < count {
        let batch = 1 + log.roll(32);
        let layers: Vec<(u64, u64)> = (0..LAYERS)
            .map(|layer| {
                let scratch = log.alloc(batch * (layer % 7 + 1) * MIB / 16);
                let kept = log.alloc(batch * (layer % 5 + 1) * MIB / 2 + 512);
                log.free(scratch);
                kept
            })
            .collect();
        layers.into_iter().rev().for_each(|block| log.free(block));
    }
    log.events.truncate(count);
    log.events
}

struct Log {
    events: Vec<Event>,
    next: u64,
    dice: u64,
    held_bytes: u64,
    live_bytes: u64,
}

impl Log {
    /// A number below `sides`, the same in each run.
    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn alloc(&mut self, bytes: u64) -> (u64, u64) {
        let block = (self.next, bytes);
        self.next += bytes.next_multiple_of(512);
        self.live_bytes += bytes;
        // The recorded allocator holds a quarter more than it needs.
        let short_bytes = (self.live_bytes * 5 / 4).saturating_sub(self.held_bytes).next_multiple_of(2 * MIB);
        if short_bytes > 0 {
            self.held_bytes += short_bytes;
            self.note(EventKind::SegmentAlloc, (block.0, short_bytes));
        }
        self.note(EventKind::Alloc, block);
        block
    }

    fn free(&mut self, block: (u64, u64)) {
        self.live_bytes -= block.1;
        self.note(EventKind::FreeRequested, block);
        self.note(EventKind::FreeCompleted, block);
    }

    fn note(&mut self, kind: EventKind, (address, size_bytes): (u64, u64)) {
        let time_us = self.events.len() as u64 * 20;
        self.events.push(Event { time_us, address, size_bytes, stream: 0, kind });
    }
}
