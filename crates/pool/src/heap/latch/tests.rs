//! The latch with threads, and in a model where every order of events is played.

use super::*;

#[test]
fn one_thread_at_a_time_is_inside() {
    const ROUNDS: u64 = 20_000;
    let latch = Latch::new((0_u64, 0_u64));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut both = latch.lock();
                    assert_eq!(both.0, both.1);
                    both.0 += 1;
                    std::hint::black_box(&mut *both);
                    both.1 += 1;
                }
            });
        }
    });
    assert_eq!(*latch.lock(), (4 * ROUNDS, 4 * ROUNDS));
}

#[test]
fn a_thread_that_sleeps_comes_in_when_the_lock_is_let_go() {
    let latch = Latch::new(0);
    let held = latch.lock();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| *latch.lock() += 1);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!other.is_finished());
        drop(held);
    });
    assert_eq!(*latch.lock(), 1);
}

/// A word in the model, which obeys the latch's orders, or is weaker than it asks.
struct Model<const ACQUIRES: bool, const RELEASES: bool>(loom::sync::atomic::AtomicBool);

impl<const ACQUIRES: bool, const RELEASES: bool> Word for Model<ACQUIRES, RELEASES> {
    fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.swap(value, if ACQUIRES { order } else { Ordering::Relaxed })
    }
    fn store(&self, value: bool, order: Ordering) {
        self.0.store(value, if RELEASES { order } else { Ordering::Relaxed });
    }
}

/// Two threads, each of which tries twice, add to a number that nothing but the latch orders: who came in beside the
/// other, or did not see what it wrote, would lose an addition.
fn play<const ACQUIRES: bool, const RELEASES: bool>() {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    loom::model(|| {
        let word = Model::<ACQUIRES, RELEASES>(AtomicBool::new(false));
        let shared = Arc::new((RawLatch(word), AtomicUsize::new(0)));
        let additions = || {
            let shared = shared.clone();
            let add = move || {
                let (latch, number) = &*shared;
                let taken = latch.take();
                if taken {
                    number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    latch.let_go();
                }
                usize::from(taken)
            };
            move || add() + add()
        };
        let other = loom::thread::spawn(additions());
        let own = additions()();
        let all = own + other.join().expect("it only adds");
        assert_eq!(shared.1.load(Ordering::Relaxed), all, "an addition is lost");
    });
}

#[test]
fn in_every_order_each_owner_sees_what_the_one_before_wrote() {
    play::<true, true>();
}

#[test]
#[should_panic(expected = "an addition is lost")]
fn a_store_that_releases_nothing_is_seen_in_the_model() {
    play::<true, false>();
}

#[test]
#[should_panic(expected = "an addition is lost")]
fn an_exchange_that_acquires_nothing_is_seen_in_the_model() {
    play::<false, true>();
}
