//! Pools that grow without end, or cannot use what they have: F01, F03, F04, F16a, F18, F71.

use crate::limit::{Ending, alloc, fails_with, needs_exactly};
use crate::rig::{CHUNKS, GIB, KIB, MIB, Rig, Shape, shortage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use stitchpool::Request;
use stitchpool::driver::Verb;
use stitchpool::driver::host::StreamMode;

/// F01: in each cycle two blocks come and go around a small one that stays. `unit` is half a chunk.
fn f01_cycles(rig: &Rig, trim: impl Fn(u64) -> bool) -> Ending {
    let unit = rig.shape.chunk_bytes / 2;
    let (canary_bytes, guard_bytes) = (64 * unit, 2 * unit);
    let stream = rig.stream();
    let canary = rig.take(stream, canary_bytes);
    rig.mark(canary, canary_bytes, 0x5A);
    for cycle in 0.. {
        let large = alloc(rig, Request::new(91 * unit, stream.id))?;
        let small = alloc(rig, Request::new(91 * unit / 2, stream.id))?;
        alloc(rig, Request::new(guard_bytes, stream.id))?;
        rig.free(large);
        rig.free(small);
        if trim(cycle) {
            rig.pool().trim();
        }
        assert!(rig.is_marked(canary, canary_bytes, 0x5A), "the canary in cycle {cycle}");
        let bound_bytes = canary_bytes + 138 * unit + guard_bytes * (cycle + 1);
        assert!(rig.physical_bytes() <= bound_bytes, "{} held in cycle {cycle}", rig.physical_bytes());
    }
    Ok(())
}

/// With `chunks` chunks the last cycle that can be served: 101 chunks hold all but the guards.
fn f01_last_cycle(rig: &Rig) -> u64 {
    rig.shape.chunks - 101 - 1
}

#[test]
fn f01_a_small_survivor_does_not_strand_a_hole() {
    for (chunk_bytes, chunks) in [(2 * MIB, 8152), (64 * KIB, 400), (4 * KIB, 400)] {
        for trims in [false, true].into_iter().filter(|trims| !trims || chunks == 400) {
            let rig = Shape::exact(chunk_bytes, chunks).build();
            let refused = f01_cycles(&rig, |cycle| trims && cycle % 10 == 7).unwrap_err();
            // Canary, the two blocks of this cycle, and a guard for each cycle before.
            let served = rig.shadow.count() - 3;
            assert_eq!(served, f01_last_cycle(&rig) + 1, "cycles served of {refused:?}");
            let shortage = shortage::<()>(Err(refused.error));
            assert_eq!(shortage.asked_bytes, chunk_bytes, "a guard is what does not fit any more");
        }
    }
}

#[test]
fn f01_growing_blocks_between_survivors_do_not_use_up_the_addresses() {
    // Each step has a larger buffer than the one before, and leaves something small behind.
    needs_exactly(&Shape::exact(4 * KIB, 1400), |rig| {
        let stream = rig.stream();
        for step in 0..684 {
            let buffer = alloc(rig, Request::new((32 + step) * 4 * KIB, stream.id))?;
            alloc(rig, Request::new(4 * KIB, stream.id))?;
            rig.free(buffer);
        }
        alloc(rig, Request::new((1400 - 684) * 4 * KIB, stream.id)).map(drop)
    });
}

/// F03: a small block, and then one that is larger and does not fit its place.
fn f03_grown(rig: &Rig) -> Ending {
    let stream = rig.stream();
    let unit = rig.shape.chunk_bytes / 2;
    for bytes in [60 * unit, 70 * unit] {
        let block = alloc(rig, Request::new(bytes, stream.id))?;
        rig.fill(stream, block, bytes, bytes);
        rig.verify(stream, block, bytes, bytes);
        rig.free(block);
    }
    assert_eq!(rig.pool().stats().handles_created, 35, "the 30 chunks of the first block are in the second");
    Ok(())
}

#[test]
fn f03_freed_memory_is_part_of_a_larger_block() {
    for chunk_bytes in CHUNKS {
        needs_exactly(&Shape::exact(chunk_bytes, 35), f03_grown);
    }
}

#[test]
fn f03_a_trimming_thread_is_in_nobodys_way() {
    let rig = Shape { streams: StreamMode::Immediate, ..Shape::exact(64 * KIB, 35) }.build();
    let stream = rig.stream();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                rig.pool().trim();
            }
        });
        for round in 0..200 {
            for bytes in [60 * 32 * KIB, 70 * 32 * KIB] {
                let block = rig.pool().alloc(&Request::new(bytes, stream.id));
                let block = block.unwrap_or_else(|error| panic!("round {round}, {bytes} bytes: {error}"));
                rig.pool().free(block.address).unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

const F04_LAYERS: u64 = 48;

/// F04: each layer of a model is replaced by a copy of `new` half chunks, where the old had 194.
fn f04_replace(rig: &Rig, new: u64) -> Ending {
    let unit = rig.shape.chunk_bytes / 2;
    let (old_bytes, new_bytes) = (194 * unit, new * unit);
    let stream = rig.stream();
    let mut layers = Vec::new();
    for layer in 0..F04_LAYERS {
        let at = rig.take(stream, old_bytes);
        rig.mark(at, old_bytes, layer as u8);
        layers.push(at);
    }
    for layer in 0..F04_LAYERS {
        let replaced = alloc(rig, Request::new(new_bytes, stream.id));
        let (done, left) = layers.split_at(layer as usize);
        if replaced.is_err() {
            assert_eq!(layer, F04_LAYERS - 1, "only the last layer may not fit");
            assert!(done.iter().zip(0..).all(|(&at, layer)| rig.is_marked(at, new_bytes, !layer)));
        }
        assert!(left.iter().zip(layer..).all(|(&at, layer)| rig.is_marked(at, 16, layer as u8)));
        let at = replaced?;
        assert!(rig.is_marked(layers[layer as usize], old_bytes, layer as u8), "layer {layer} before it goes");
        rig.mark(at, new_bytes, !(layer as u8));
        rig.free(layers[layer as usize]);
        layers[layer as usize] = at;
    }
    assert!(layers.iter().zip(0..).all(|(&at, layer)| rig.is_marked(at, new_bytes, !layer)));
    Ok(())
}

#[test]
fn f04_replacing_each_layer_by_a_larger_copy_strands_nothing() {
    for chunk_bytes in [4 * KIB, 2 * MIB] {
        // 47 new layers, the last new one and the last old one: 47 · 103 + 103 + 97 chunks.
        needs_exactly(&Shape::exact(chunk_bytes, 5041), |rig| f04_replace(rig, 206));
    }
}

#[test]
fn f04_layers_of_odd_length_need_no_more() {
    // 205 half chunks are no whole chunk: what fits when rounded up fits without.
    assert!(f04_replace(&Shape::exact(64 * KIB, 5041).build(), 205).is_ok());
}

#[test]
fn f16a_memory_is_back_after_each_block() {
    for (rounds, bytes, chunk_bytes) in [(64, 64 * MIB, 2 * MIB), (1000, 256 * MIB, 16 * MIB)] {
        let rig = Shape::exact(chunk_bytes, 80 * GIB / chunk_bytes).build();
        let stream = rig.stream();
        for _ in 0..rounds {
            let block = rig.take(stream, bytes);
            assert_eq!(rig.physical_bytes(), bytes);
            rig.free(block);
            let trimmed = rig.pool().trim_and_wait().unwrap();
            assert_eq!((trimmed.released_bytes, trimmed.waiting_bytes, trimmed.refusal), (bytes, 0, None));
            assert_eq!((rig.physical_bytes(), rig.ledger().mappings), (0, 0), "as before the block");
        }
    }
}

#[test]
fn f18a_a_small_beginning_does_not_bound_what_can_be_had() {
    for chunk_bytes in CHUNKS {
        needs_exactly(&Shape::exact(chunk_bytes, 1024), |rig| {
            let stream = rig.stream();
            rig.free(rig.take(stream, 256 * chunk_bytes));
            alloc(rig, Request::new(1024 * chunk_bytes, stream.id)).map(drop)
        });
    }
}

#[test]
fn f18b_the_first_odd_block_is_stitched_with_later_ones() {
    needs_exactly(&Shape::exact(2 * MIB, 32), |rig| {
        let stream = rig.stream();
        rig.free(rig.take(stream, 1_000_192));
        (0..8).try_for_each(|_| alloc(rig, Request::new(8 * MIB, stream.id)).map(drop))
    });
}

#[test]
fn f18c_growth_is_no_larger_than_what_is_asked_for() {
    let rig = Shape::usual(32_510 * MIB).build();
    let stream = rig.stream();
    for served in 1..=3 {
        rig.take(stream, 8 * GIB);
        assert_eq!(rig.physical_bytes(), served * 8 * GIB);
    }
    assert_eq!(rig.shortage(stream, 8 * GIB).devices[0].device_free_bytes, Some(32_510 * MIB - 24 * GIB));
    rig.take(stream, 32_510 * MIB - 24 * GIB);
}

#[test]
fn f18d_pairs_of_growing_blocks_leave_no_trail() {
    for shape in [Shape::usual(24 * GIB), Shape::exact(2 * MIB, 12 * 1024)] {
        let rig = shape.build();
        let stream = rig.stream();
        rig.free(rig.take(stream, 2 * GIB));
        for step in 1..=20 {
            let pair = [0, 1].map(|_| rig.take(stream, step * 100 * MIB));
            pair.into_iter().for_each(|block| rig.free(block));
        }
        let peak_bytes = rig.figures().physical_peak_bytes;
        assert!(peak_bytes <= 4000 * MIB + 4 * MIB, "{peak_bytes} bytes for 4,000 MiB");
    }
}

#[test]
fn f18d_at_exact_capacity() {
    // The last pair alone is 4,000 half chunks.
    needs_exactly(&Shape::exact(64 * KIB, 2000), |rig| {
        let stream = rig.stream();
        for step in 1..=20 {
            let pair = [0, 1].map(|_| alloc(rig, Request::new(step * 100 * 32 * KIB, stream.id)));
            for block in pair {
                rig.free(block?);
            }
        }
        Ok(())
    });
}

#[test]
fn i07_whatever_the_layout_free_chunks_are_enough() {
    // Every second chunk of a full device is freed: half of it in one block must be possible, no chunk more.
    for chunk_bytes in CHUNKS {
        let shape = Shape::exact(chunk_bytes, 256);
        let checkered = |rig: &Rig, chunks: u64| {
            let stream = rig.stream();
            let blocks: Vec<_> = (0..256).map(|_| rig.take(stream, chunk_bytes)).collect();
            blocks.iter().step_by(2).for_each(|&block| rig.free(block));
            alloc(rig, Request::new(chunks * chunk_bytes, stream.id)).map(drop)
        };
        let rig = shape.clone().build();
        assert!(checkered(&rig, 128).is_ok());
        fails_with(&shape, |rig| checkered(rig, 129));
    }
}

#[test]
fn f71_handles_are_kept_for_the_next_block_until_somebody_asks_for_them() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 64).build();
        let stream = rig.stream();
        for round in 0..100 {
            // No size comes again at once, so that memory is moved and not just found.
            let blocks = [5, 11, 24].map(|chunks| rig.take(stream, (chunks + round % 7) * chunk_bytes));
            blocks.iter().for_each(|&block| rig.free(block));
        }
        let (created, released) = (rig.faulty.calls(Verb::Create), rig.faulty.calls(Verb::Release));
        assert_eq!((created, released), (5 + 11 + 24 + 3 * 6, 0), "as many as were ever needed at once");
        let trimmed = rig.pool().trim_and_wait().unwrap();
        assert_eq!((trimmed.released_bytes, rig.faulty.calls(Verb::Release)), (created * chunk_bytes, created));
    }
}

/// F18: handles that stand at an old place too, because nobody has taken that down yet, are no memory to give back.
#[test]
fn f18_memory_that_still_stands_at_an_old_place_is_not_counted_on_twice() {
    let mut shape = Shape::usual(8 * GIB);
    shape.settings.seal_pause = std::time::Duration::ZERO;
    let rig = shape.build();
    let stream = rig.stream();
    let small: Vec<_> = (0..512).map(|_| rig.take(stream, 2 * MIB)).collect();
    let (scattered, rest): (Vec<_>, Vec<_>) = small.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    scattered.into_iter().for_each(|(_, block)| rig.free(block));
    // Stitched from all of them: each stands at two places now.
    let large = rig.take(stream, 512 * MIB);
    assert_eq!(rig.physical_bytes(), GIB, "none was made anew");
    rig.free(large);
    // The GPU has come past all of it, which the pool sees by its frees; of the old places a few are taken down.
    for frees in rest.chunks(16).take(2) {
        rig.done(stream);
        frees.iter().for_each(|&(_, block)| rig.free(block));
    }
    let stale = rig.pool().stats().stale_mappings;
    assert!(stale >= 64, "{stale} stand at an old place");
    // So large that what is free in one piece is no place to begin.
    rig.take(stream, 5 * GIB);
    let live_bytes = rig.figures().holdings.live_bytes;
    assert!(rig.physical_bytes() <= live_bytes + live_bytes / 100, "{} held, {live_bytes} live", rig.physical_bytes());
}
