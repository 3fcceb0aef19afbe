//! Pairs a second of several threads together: each on a stream of its own, and all on one.

use super::contender::{Contender, Stitchpool};
use super::rivals::OrderedMap;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

const BLOCK_BYTES: u64 = 1 << 20;
const ROOM_BYTES: u64 = 1 << 30;

/// 1, 2, 4 and so on, as far as there are processors.
pub fn threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("threads");
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&count| count < most).collect();
    counts.push(most);
    for threads in counts {
        group.throughput(Throughput::Elements(threads as u64));
        let own = Stitchpool::open(threads as u64, ROOM_BYTES);
        race(&mut group, ("own streams", threads), own.into_iter().map(pair_on).collect());
        let one = Stitchpool::open(1, ROOM_BYTES).remove(0);
        race(&mut group, ("one stream", threads), (0..threads).map(|_| pair_on(one.share())).collect());
        let map = Mutex::new(OrderedMap::with_room(ROOM_BYTES));
        let locked = || {
            let block = map.lock().unwrap().alloc(BLOCK_BYTES);
            map.lock().unwrap().free(block);
        };
        race(&mut group, ("ordered map, one lock", threads), vec![locked; threads]);
    }
}

fn pair_on(mut contender: Stitchpool) -> impl FnMut() + Send {
    move || {
        let block = contender.alloc(BLOCK_BYTES);
        contender.free(block);
    }
}

/// Each thread does as many pairs as it is asked for; counted is the time until the last is done.
fn race<P: FnMut() + Send>(group: &mut BenchmarkGroup<'_, WallTime>, (name, threads): (&str, usize), pairs: Vec<P>) {
    let mut pairs = pairs;
    group.bench_function(BenchmarkId::new(name, threads), |bencher| {
        bencher.iter_custom(|count| run(&mut pairs, count));
    });
}

fn run<P: FnMut() + Send>(pairs: &mut [P], count: u64) -> Duration {
    let start = Barrier::new(pairs.len());
    let work = |pair: &mut P| {
        start.wait();
        let begun = Instant::now();
        (0..count).for_each(|_| pair());
        begun.elapsed()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = pairs.iter_mut().map(|pair| scope.spawn(|| work(pair))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).max().unwrap_or_default()
    })
}
