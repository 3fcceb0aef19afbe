//! The whole life of memory against a shadow: every operation of the pool mixed with requests, frees, uses
//! on many streams and refusals of the driver, on two devices and in the host's memory. Blocks keep their addresses, their bytes and
//! their rights, and what has failed succeeds once its cause is gone.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod buffers;
mod captures;
mod case;
mod hold;
mod lane;
mod moves;
mod places;
mod probe;
mod requests;
#[path = "../rig/mod.rs"]
mod rig;
mod shadow;
mod shortages;
mod steps;
mod uses;
mod world;

use case::Case;
use proptest::prelude::*;
use steps::cases_of;
use world::World;

/// Every so many steps all is looked at.
const PROBE_STEPS: usize = 16;

fn play(case: &Case) {
    let mut world = World::new(case);
    for (number, op) in case.ops.iter().enumerate() {
        world.step(op);
        world.inspect();
        if number % PROBE_STEPS == PROBE_STEPS - 1 {
            world.probe();
        }
    }
    world.finish();
}

proptest! {
    #![proptest_config(rig::cases(30))]

    #[test]
    fn every_operation_agrees_with_the_shadow(case in cases_of(false)) {
        play(&case);
    }

    #[test]
    fn every_operation_agrees_with_the_shadow_whatever_the_driver_refuses(case in cases_of(true)) {
        play(&case);
    }
}
