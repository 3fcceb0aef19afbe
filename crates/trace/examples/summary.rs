//! Prints what a trace holds: `cargo run --example summary -- FILE...`

use std::time::Instant;
use stitchpool_trace::{Limits, Trace};

fn main() -> Result<(), stitchpool_trace::Error> {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let trace = Trace::open(&path, &Limits::default())?;
        println!("{path}: {:?}, read in {:.0?}", trace.source, start.elapsed());
        for device in &trace.devices {
            let steps = device.steps();
            println!(
                "  device {}: {} events, {} allocs, {} frees, {} initial, {} skipped, {} lost, streams {:x?}",
                device.device,
                device.events.len(),
                steps.allocs,
                steps.frees,
                steps.initial.len(),
                steps.skipped_frees,
                steps.lost_frees,
                steps.streams,
            );
            println!(
                "  live {} bytes at most, {} at the end; reserved {:?}; {} us",
                steps.peak_live_bytes, steps.end_live_bytes, steps.peak_reserved_bytes, steps.duration_us
            );
        }
    }
    Ok(())
}
