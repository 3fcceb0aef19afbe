//! How the time of a pair grows: with the number of live blocks, and with the number of holes.

use super::churn::Sizes;
use super::contender::{Contender, Stitchpool};
use super::pairs::step;
use super::rivals::{OffsetAllocator, OrderedMap};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion};
use std::hint::black_box;

/// A thousand to a million live blocks of 512 B to 64 KiB.
pub fn growth(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("growth");
    for live in [1_000, 10_000, 100_000, 1_000_000] {
        step::<Stitchpool>(&mut group, live, Sizes::SMALL);
        step::<OrderedMap>(&mut group, live, Sizes::SMALL);
        step::<OffsetAllocator>(&mut group, live, Sizes::SMALL);
    }
}

/// Holes of 1 KiB between live blocks: a request that fits the first, and one that fits none of them.
/// (Field case F40.)
pub fn holes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("holes");
    for holes in [4_096, 16_384, 65_536] {
        for (fit, bytes) in [("first", 1 << 10), ("none", 2 << 10)] {
            let name = format!("{holes}, {fit} fits");
            pair_among::<Stitchpool>(&mut group, &name, holes, bytes);
            pair_among::<OrderedMap>(&mut group, &name, holes, bytes);
            pair_among::<OffsetAllocator>(&mut group, &name, holes, bytes);
        }
    }
}

fn pair_among<C: Contender>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, holes: usize, bytes: u64) {
    const HOLE_BYTES: u64 = 1 << 10;
    let mut contender = C::with_room(HOLE_BYTES * holes as u64 * 4);
    let blocks: Vec<C::Block> = (0..holes * 2).map(|_| contender.alloc(HOLE_BYTES)).collect();
    blocks.iter().step_by(2).for_each(|&block| contender.free(block));
    let misses = contender.misses();
    group.bench_function(BenchmarkId::new(C::NAME, name), |bencher| {
        bencher.iter(|| {
            let block = contender.alloc(black_box(bytes));
            contender.free(black_box(block));
        });
    });
    assert_eq!(contender.misses(), misses, "every request is a hit");
    blocks.into_iter().skip(1).step_by(2).for_each(|block| contender.free(block));
}
