//! One allocation and its free: alone, and among many live blocks of all sizes.

use super::churn::{Churn, Sizes};
use super::contender::{Contender, Stitchpool};
use super::rivals::{OffsetAllocator, OrderedMap, Rlsf};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion};
use std::hint::black_box;

const GIB: u64 = 1 << 30;

/// Nothing else is live.
pub fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pairs");
    for (name, bytes) in [("512 B", 512), ("1 MiB", 1 << 20), ("20 MiB", 20 << 20)] {
        pair::<Stitchpool>(&mut group, name, bytes);
        pair::<OrderedMap>(&mut group, name, bytes);
        pair::<OffsetAllocator>(&mut group, name, bytes);
        pair::<Rlsf>(&mut group, name, bytes);
    }
}

fn pair<C: Contender>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, bytes: u64) {
    let mut contender = C::with_room(4 * GIB);
    let misses = contender.misses();
    group.bench_function(BenchmarkId::new(C::NAME, name), |bencher| {
        bencher.iter(|| {
            let block = contender.alloc(black_box(bytes));
            contender.free(black_box(block));
        });
    });
    assert_eq!(contender.misses(), misses, "every request is a hit");
}

/// 512 B to 64 MiB, evenly over their logarithm; each step frees any block and allocates another. Without
/// rlsf: it would be timed by the faults of the real memory that it writes to.
pub fn churn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("churn");
    for live in [2_000, 20_000] {
        step::<Stitchpool>(&mut group, live, Sizes::MIXED);
        step::<OrderedMap>(&mut group, live, Sizes::MIXED);
        step::<OffsetAllocator>(&mut group, live, Sizes::MIXED);
    }
}

pub(super) fn step<C: Contender>(group: &mut BenchmarkGroup<'_, WallTime>, live: usize, sizes: Sizes) {
    let mut churn = Churn::<C>::settled(live, sizes);
    let misses = churn.contender.misses();
    group.bench_function(BenchmarkId::new(C::NAME, live), |bencher| bencher.iter(|| churn.step()));
    assert_eq!(churn.contender.misses(), misses, "every request is a hit");
}
