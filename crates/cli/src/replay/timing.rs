//! What an allocation and its free cost in the pool itself, by the wall clock. A run of its own: the
//! clock is read once for many steps, and nothing else is counted meanwhile.

use super::rig::Rig;
use super::script::Script;
use anyhow::Result;
use std::time::{Duration, Instant};
use stitchpool_driver::Address;
use stitchpool_trace::{Op, Step};

/// So many steps are played between two readings of the clock.
const BATCH_STEPS: usize = 64;

/// Nanoseconds for each allocation with its free, calls of the driver not counted.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// On a new pool.
    pub ns_per_pair: f64,
    /// Played again on the pool that has all its memory.
    pub ns_per_pair_warm: f64,
}

impl Timing {
    /// Plays the trace twice.
    pub fn of(script: &Script, rig: &Rig) -> Result<Self> {
        Ok(Self { ns_per_pair: time(script, rig, 0)?, ns_per_pair_warm: time(script, rig, script.duration_us())? })
    }
}

/// Plays the trace once, from a time of the clock on. Refused requests count as nothing.
fn time(script: &Script, rig: &Rig, start_us: u64) -> Result<f64> {
    let mut blocks: Vec<Vec<Option<Address>>> = script.devices.iter().map(|_| Vec::new()).collect();
    for (device, steps) in script.devices.iter().enumerate() {
        for block in &steps.initial {
            alloc(script, rig, &mut blocks[device], (device, block.stream, block.size_bytes));
        }
    }
    let steps: Vec<(usize, Step)> = script.steps().collect();
    let in_driver_before_us = rig.metered.spent().total().wall_us;
    let (mut in_pool, mut pairs) = (Duration::ZERO, 0_u64);
    for batch in steps.chunks(BATCH_STEPS) {
        rig.reach(start_us + batch[0].1.time_us);
        let start = Instant::now();
        for &(device, step) in batch {
            pairs += u64::from(play(script, rig, &mut blocks, (device, step)));
        }
        in_pool += start.elapsed();
    }
    let in_driver_us = rig.metered.spent().total().wall_us - in_driver_before_us;
    for address in blocks.into_iter().flatten().flatten() {
        rig.pool.free(address)?;
    }
    let in_pool_ns = (in_pool.as_nanos() as f64 - in_driver_us * 1000.0).max(0.0);
    Ok(if pairs == 0 { 0.0 } else { in_pool_ns / pairs as f64 })
}

/// Plays a step and says whether it ended a pair.
fn play(script: &Script, rig: &Rig, blocks: &mut [Vec<Option<Address>>], (device, step): (usize, Step)) -> bool {
    match step.op {
        Op::Alloc { size_bytes, stream, .. } => {
            alloc(script, rig, &mut blocks[device], (device, stream, size_bytes));
            false
        }
        Op::Free { id } | Op::FreeRequested { id } => {
            let Some(address) = blocks[device][id as usize].take() else { return false };
            rig.pool.free(address).is_ok()
        }
        Op::FreeCompleted { .. } => false,
    }
}

fn alloc(
    script: &Script,
    rig: &Rig,
    blocks: &mut Vec<Option<Address>>,
    (device, stream, size_bytes): (usize, u32, u64),
) {
    let request = rig.request(device, stream as usize, script.scaled(size_bytes));
    blocks.push(rig.pool.alloc(&request).ok().map(|block| block.address));
}
