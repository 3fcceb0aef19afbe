//! Recorded runs, played from memory again and again: time of a round, and pairs a second.

use super::contender::{Contender, Stitchpool};
use super::rivals::{OffsetAllocator, OrderedMap};
use super::script::Script;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};

/// The traces of the repository, streams taken as one.
pub fn traces(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("traces");
    for script in Script::all() {
        group.throughput(Throughput::Elements(script.pairs()));
        round::<Stitchpool>(&mut group, &script);
        round::<OrderedMap>(&mut group, &script);
        round::<OffsetAllocator>(&mut group, &script);
    }
}

fn round<C: Contender>(group: &mut BenchmarkGroup<'_, WallTime>, script: &Script) {
    let mut contender = C::with_room(script.room_bytes());
    let mut places = Vec::new();
    let misses = contender.misses();
    group.bench_function(BenchmarkId::new(C::NAME, &script.name), |bencher| {
        bencher.iter(|| script.play(&mut contender, &mut places));
    });
    assert_eq!(contender.misses(), misses, "every request is a hit");
}
