//! The block that was given last is only promised until something else is asked of its heap. Nobody can tell: a
//! pool that is looked at after every step, so that nothing stays promised, gives the same places.
#![allow(clippy::unwrap_used, missing_docs)]

use proptest::prelude::*;
use stitchpool_driver::DeviceId;
use stitchpool_driver::Kernels;
use stitchpool_driver::host::{HostConfig, HostDriver};
use stitchpool_pool::{Pool, Request, Settings};

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc {
        size: usize,
        alignment_bytes: u64,
    },
    /// The block that was given last, if it lives.
    FreeLast,
    FreeAny(usize),
    /// One that was freed last, if nothing lives there again.
    FreeTwice,
}

const BYTES: [u64; 4] = [512, 1536, 100_000, 3 << 20];

fn step() -> impl Strategy<Value = Step> {
    let alloc = |alignments: &'static [u64]| {
        (0..BYTES.len(), prop::sample::select(alignments))
            .prop_map(|(size, alignment_bytes)| Step::Alloc { size, alignment_bytes })
    };
    prop_oneof![
        8 => alloc(&[512]),
        1 => alloc(&[1024, 4096]),
        6 => Just(Step::FreeLast),
        4 => any::<usize>().prop_map(Step::FreeAny),
        1 => Just(Step::FreeTwice),
    ]
}

/// Where each block was given, counted from the first.
fn play(steps: &[Step], look: bool) -> Vec<u64> {
    let driver = HostDriver::new(HostConfig::default()).unwrap();
    let stream = driver.create_stream(DeviceId(0)).unwrap();
    let pool = Pool::new(driver, Settings::default()).unwrap();
    let stream = pool.register(stream).unwrap();
    let room = pool.alloc(&Request::new(64 << 20, stream)).unwrap();
    pool.free(room.address).unwrap();
    let (mut live, mut gone, mut places) = (Vec::new(), room.address + 512, Vec::new());
    for &step in steps {
        let freed = match step {
            Step::Alloc { size, alignment_bytes } => {
                let block = pool.alloc(&Request::new(BYTES[size], stream).aligned_to(alignment_bytes)).unwrap();
                places.push(block.address.0.wrapping_sub(room.address.0));
                live.push(block.address);
                None
            }
            Step::FreeLast => live.pop(),
            Step::FreeAny(pick) => (!live.is_empty()).then(|| live.swap_remove(pick % live.len())),
            Step::FreeTwice => {
                assert!(live.contains(&gone) || pool.free(gone).is_err());
                None
            }
        };
        if let Some(address) = freed {
            pool.free(address).unwrap();
            gone = address;
        }
        if look {
            pool.check().unwrap();
        }
    }
    assert_eq!(pool.stats().live_blocks, live.len() as u64);
    pool.check().unwrap();
    live.into_iter().for_each(|address| pool.free(address).unwrap());
    places
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_pool_that_is_looked_at_gives_the_same_places(steps in prop::collection::vec(step(), 1..120)) {
        prop_assert_eq!(play(&steps, true), play(&steps, false));
    }
}
