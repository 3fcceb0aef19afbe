//! The pool against a shadow: random requests, buffers that grow, frees, uses on many streams, stream progress, trims,
//! retirements and driver faults, on one to four devices. After every step nothing may be out of place.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod buffers;
mod case;
mod inspect;
#[path = "../rig/mod.rs"]
mod rig;
mod shadow;
mod world;

use case::{Case, cases_of};
use proptest::prelude::*;
use world::World;

fn play(case: &Case) {
    let mut world = World::new(case);
    for op in &case.ops {
        world.step(op);
        world.inspect();
    }
    world.finish();
}

proptest! {
    #![proptest_config(rig::cases(96))]

    #[test]
    fn the_pool_agrees_with_its_shadow(case in cases_of(false)) {
        play(&case);
    }

    #[test]
    fn the_pool_agrees_with_its_shadow_whatever_the_driver_refuses(case in cases_of(true)) {
        play(&case);
    }
}
