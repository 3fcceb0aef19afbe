//! Three streams that take each other's memory at random, at exact capacity, with random progress.

use crate::rig::{Stream, cases};
use crate::tight;
use proptest::prelude::*;
use stitchpool::{Block, Error, Request};

const GRANULES: u64 = 12;

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { stream: usize, granules: u64 },
    Free { pick: usize },
    Share { pick: usize, stream: usize },
    Advance { stream: usize, items: u64 },
    Seal,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stream = || 0..3_usize;
    let step = prop_oneof![
        4 => (stream(), 1..6_u64).prop_map(|(stream, granules)| Step::Alloc { stream, granules }),
        3 => (0..8_usize).prop_map(|pick| Step::Free { pick }),
        2 => (0..8_usize, stream()).prop_map(|(pick, stream)| Step::Share { pick, stream }),
        3 => (stream(), 1..5_u64).prop_map(|(stream, items)| Step::Advance { stream, items }),
        1 => Just(Step::Seal),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn no_byte_is_reused_too_early_in_whatever_order_streams_run(steps in steps()) {
        let rig = tight(GRANULES);
        let streams: [Stream; 3] = std::array::from_fn(|_| rig.stream(0));
        let mut blocks: Vec<(Block, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Alloc { stream, granules } => {
                    let request = Request::new(granules * crate::GRANULE, streams[stream].id);
                    let used: u64 = blocks.iter().map(|(block, _)| block.bytes / crate::GRANULE).sum();
                    match rig.pool.alloc(&request) {
                        Ok(block) => {
                            rig.write(&streams[stream], &block);
                            blocks.push((block, stream));
                        }
                        Err(Error::OutOfMemory(_)) => prop_assert!(used + granules > GRANULES),
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::Free { pick } if pick < blocks.len() => {
                    let (block, owner) = blocks.swap_remove(pick);
                    rig.free(&streams[owner], &block);
                }
                Step::Share { pick, stream } if pick < blocks.len() => {
                    let (block, owner) = blocks[pick];
                    rig.pool.record_use(block.address, streams[stream].id).unwrap();
                    crate::rig::Application::order(&*rig.host, streams[stream].raw, streams[owner].raw);
                    rig.read(&streams[stream], &block, &streams[owner]);
                }
                Step::Free { .. } | Step::Share { .. } => {}
                Step::Advance { stream, items } => {
                    rig.host.advance(streams[stream].raw, items).unwrap();
                }
                Step::Seal => drop(rig.pool.trim()),
            }
        }
        blocks.iter().for_each(|(block, owner)| rig.free(&streams[*owner], block));
        prop_assert_eq!(rig.pool.stats().cpu_waits, 0, "streams wait, the CPU never");
        rig.end();
    }
}
