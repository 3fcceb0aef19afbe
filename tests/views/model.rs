//! Random leases, views and rights against a shadow.

use crate::op::{Op, ops};
use crate::rig::cases;
use crate::world::World;
use proptest::prelude::*;

fn play(ops: &[Op]) {
    let mut world = World::new();
    for (number, op) in ops.iter().enumerate() {
        world.step(op);
        world.inspect();
        if number % 16 == 15 {
            world.probe();
        }
    }
    world.finish();
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn views_leases_and_rights_agree_with_their_shadow(ops in prop::collection::vec(ops(false), 1..120)) {
        play(&ops);
    }

    #[test]
    fn views_leases_and_rights_agree_with_their_shadow_whatever_fails(ops in prop::collection::vec(ops(true), 1..120)) {
        play(&ops);
    }
}
