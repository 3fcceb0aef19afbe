//! Stitched ranges against a shadow: random stitching, growing, shrinking, taking, replacing, opening,
//! with memory that stands in two ranges at once. What the shadow would refuse is refused, and after
//! every step both agree on every mapping, right and byte.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../bench/mod.rs"]
mod bench;
mod call;
mod shadow;
mod world;

use call::calls;
use proptest::prelude::*;
use world::World;

fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if asked { ProptestConfig::default().cases } else { 128 }, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ranges_agree_with_their_shadow(calls in calls()) {
        let mut world = World::new();
        for call in &calls {
            let (made, right) = world.make(call);
            prop_assert_eq!(made.is_ok(), right, "{:?}: {:?}", call, made);
            world.inspect();
        }
        world.finish();
    }
}
