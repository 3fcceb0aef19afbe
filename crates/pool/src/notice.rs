//! Notice to listeners of memory that leaves its addresses and comes back: whose it is, that no lock is
//! held, and that what has come back is open. Who moves memory calls it.

use crate::arena::{ArenaId, Wakefulness};
use crate::engine::Engine;
use crate::error::Result;
use crate::listener::ListenerId;
use crate::operation::bed::slots_of;
use crate::scope::Ground;
use stitchpool_chunks::Segment;

impl Engine {
    /// Does something that takes memory from the slots of some grounds, which `close` took for it, and opens
    /// them again: in state `to` if it went well. Listeners are told before; and after, of what stands there then,
    /// which may be other memory. By then it is open, so that they may use it.
    pub(crate) fn with_notice<T>(
        &self,
        grounds: &[&Ground],
        to: Option<Wakefulness>,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let (told, agreed) = self.before_leave(&self.segments_on(grounds));
        let outcome = agreed.and_then(|()| act());
        let to = to.filter(|_| outcome.is_ok());
        grounds.iter().for_each(|ground| self.reopen(ground, to));
        match &outcome {
            Err(_) => self.listeners.after(&self.segments_on(grounds), |of| self.arena_of(of), Some(&told)),
            Ok(_) if to != Some(Wakefulness::Asleep) => self.after_return(&self.segments_on(grounds)),
            Ok(_) => {}
        }
        outcome
    }

    /// What stands in the slots of some grounds now.
    pub(crate) fn segments_on(&self, grounds: &[&Ground]) -> Vec<Segment> {
        let mapper = self.mapper.lock();
        let slots = grounds.iter().flat_map(|ground| slots_of(&mapper, ground));
        let current = slots.filter_map(|(_, slot)| slot.current());
        current.filter_map(|mapping| Segment::of(mapping, mapping.at(), mapping.bytes())).collect()
    }

    /// Tells listeners, with no lock held, that memory is about to leave its addresses. Gives those who agreed,
    /// and the veto of the first who did not.
    fn before_leave(&self, leaving: &[Segment]) -> (Vec<ListenerId>, Result<()>) {
        self.listeners.before(leaving, |segment| self.arena_of(segment))
    }

    /// Tells listeners, with no lock held, that memory is back at these addresses.
    pub(crate) fn after_return(&self, returned: &[Segment]) {
        self.listeners.after(returned, |segment| self.arena_of(segment), None);
    }

    fn arena_of(&self, segment: &Segment) -> Option<ArenaId> {
        let inside = self.heap_of(segment.at).ok()?.inside.lock();
        inside.tenant.as_ref().map(|tenant| tenant.key.arena)
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::listener::{Interest, Listener};
    use crate::mapper::backup::Backup;
    use crate::pin::Pin;
    use crate::pool::Pool;
    use crate::request::{Request, StreamId};
    use crate::scope::Scope;
    use crate::settings::Settings;
    use parking_lot::Mutex;
    use std::sync::Arc;
    use std::time::Duration;
    use stitchpool_chunks::Segment;
    use stitchpool_driver::host::{HostConfig, HostDriver};
    use stitchpool_driver::{Address, DeviceId, RawStream};

    const MIB: u64 = 1 << 20;

    fn pool() -> (Pool, StreamId) {
        let host = HostDriver::new(HostConfig::default()).unwrap();
        let pool = Pool::new(host, Settings::default()).unwrap();
        let stream = pool.register(RawStream { device: DeviceId(0), value: 0 }).unwrap();
        (pool, stream)
    }

    fn segments(pool: &Pool, request: &Request) -> (Address, Vec<Segment>) {
        let block = pool.alloc(request).unwrap();
        (block.address, pool.segments(block.address, block.bytes).unwrap())
    }

    type Log = Arc<Mutex<Vec<String>>>;

    /// Writes down what it hears, and fails or panics if it shall.
    struct Clerk {
        name: &'static str,
        log: Log,
        fails: bool,
        panics: bool,
    }

    impl Clerk {
        fn new(name: &'static str, log: &Log) -> Self {
            Self { name, log: log.clone(), fails: false, panics: false }
        }

        fn note(&self, what: &str, segments: &[Segment]) {
            let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
            self.log.lock().push(format!("{} {what} {}", self.name, bytes / MIB));
        }
    }

    impl Listener for Clerk {
        fn before_leave(&self, segments: &[Segment]) -> Result<(), String> {
            self.note("leaves", segments);
            assert!(!self.panics, "a clerk lost its head");
            if self.fails { Err("a transfer is under way".into()) } else { Ok(()) }
        }

        fn after_return(&self, segments: &[Segment]) {
            self.note("returns", segments);
            assert!(!self.panics, "a clerk lost its head");
        }
    }

    #[test]
    fn each_listener_hears_of_what_it_is_interested_in() {
        let (pool, stream) = pool();
        let arena = pool.arena("a").unwrap();
        let (_, mut all) = segments(&pool, &Request::new(2 * MIB, stream));
        let (inside, of_arena) = segments(&pool, &Request::new(4 * MIB, stream).in_arena(arena));
        all.extend(of_arena);
        let log = Log::default();
        let range = Interest::Range { address: inside, bytes: 1 };
        for (name, interest) in [("every", Interest::Pool), ("arena", Interest::Arena(arena)), ("first", range)] {
            pool.listen(Arc::new(Clerk::new(name, &log)), interest).unwrap();
        }
        let far = Interest::Range { address: Address(1), bytes: 1 };
        pool.listen(Arc::new(Clerk::new("far", &log)), far).unwrap();
        pool.engine.before_leave(&all).1.unwrap();
        pool.engine.after_return(&all);
        let heard = log.lock().join(", ");
        let expected =
            "every leaves 6, arena leaves 4, first leaves 2, every returns 6, arena returns 4, first returns 2";
        assert_eq!(heard, expected);
    }

    #[test]
    fn a_listener_that_fails_vetoes_and_those_told_before_hear_that_all_is_back() {
        let (pool, stream) = pool();
        let (address, segments) = segments(&pool, &Request::new(2 * MIB, stream).exclusive());
        for panics in [false, true] {
            let log = Log::default();
            let failing = Clerk { fails: true, panics, ..Clerk::new("second", &log) };
            let clerks = [Clerk::new("first", &log), failing, Clerk::new("third", &log)];
            let ids = clerks.map(|clerk| pool.listen(Arc::new(clerk), Interest::Pool).unwrap());
            let why = if panics { "it panicked: a clerk lost its head" } else { "a transfer is under way" };
            let refused = pool.suspend(Scope::Block(address), &Backup::Discard);
            assert_eq!(refused.unwrap_err(), Error::Vetoed { why: why.into() });
            assert_eq!(log.lock().join(", "), "first leaves 2, second leaves 2, first returns 2");
            log.lock().clear();
            pool.engine.after_return(&segments);
            assert_eq!(log.lock().join(", "), "first returns 2, second returns 2, third returns 2");
            assert!(pool.unlisten(ids[1]) && !pool.unlisten(ids[1]));
            pool.engine.before_leave(&segments).1.unwrap();
            assert!(ids[0] != ids[2] && pool.unlisten(ids[0]) && pool.unlisten(ids[2]));
        }
    }

    /// Uses all of the pool when it is called, and holds a pin meanwhile.
    struct Reentering {
        pool: Mutex<Option<Pool>>,
        stream: StreamId,
        pin: Mutex<Option<Pin>>,
    }

    impl Listener for Reentering {
        fn before_leave(&self, leaving: &[Segment]) -> Result<(), String> {
            let pool = self.pool.lock().clone().ok_or("no pool")?;
            drop(self.pin.lock().take());
            let block = pool.alloc(&Request::new(64 * MIB, self.stream)).map_err(|error| error.to_string())?;
            pool.free(block.address).map_err(|error| error.to_string())?;
            drop((pool.stats(), pool.trim(), pool.pictures(), leaving.len()));
            let id = pool.listen(Arc::new(Clerk::new("late", &Log::default())), Interest::Pool).map_err(|_| "full")?;
            pool.unlisten(id).then_some(()).ok_or_else(|| "it was gone".into())
        }

        fn after_return(&self, back: &[Segment]) {
            let Some(pool) = self.pool.lock().clone() else { return };
            *self.pin.lock() = pool.pin(back[0].at, back[0].bytes).ok();
        }
    }

    #[test]
    fn a_listener_may_use_the_pool() {
        let (done, over) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let (pool, stream) = pool();
            let (address, segments) = segments(&pool, &Request::new(8 * MIB, stream));
            let pin = Mutex::new(Some(pool.pin(address, 8 * MIB).unwrap()));
            let listener = Arc::new(Reentering { pool: Mutex::new(Some(pool.clone())), stream, pin });
            pool.listen(listener.clone(), Interest::Pool).unwrap();
            for _ in 0..100 {
                pool.engine.before_leave(&segments).1.unwrap();
                assert!(listener.pin.lock().is_none());
                pool.engine.after_return(&segments);
                assert!(listener.pin.lock().is_some());
            }
            listener.pool.lock().take();
            listener.pin.lock().take();
            done.send(()).unwrap();
        });
        over.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn f41_a_listener_and_a_caller_may_want_the_same_lock() {
        const ROUNDS: u32 = 20_000;
        struct Locking(Arc<Mutex<u32>>);
        impl Listener for Locking {
            fn before_leave(&self, _: &[Segment]) -> Result<(), String> {
                *self.0.lock() += 1;
                Ok(())
            }
            fn after_return(&self, _: &[Segment]) {
                *self.0.lock() += 1;
            }
        }
        let (done, over) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let (pool, stream) = pool();
            let (_, segments) = segments(&pool, &Request::new(8 * MIB, stream));
            let lock = Arc::new(Mutex::new(0));
            pool.listen(Arc::new(Locking(lock.clone())), Interest::Pool).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        let held = lock.lock();
                        // Now and then a miss, which takes the lock behind the hits.
                        let bytes = if round % 64 == 0 { u64::from(round) << 10 | 1 } else { 512 };
                        let block = pool.alloc(&Request::new(bytes, stream)).unwrap();
                        pool.free(block.address).unwrap();
                        drop(held);
                    }
                });
                for _ in 0..ROUNDS {
                    pool.engine.before_leave(&segments).1.unwrap();
                    pool.engine.after_return(&segments);
                }
            });
            assert_eq!(*lock.lock(), 2 * ROUNDS);
            done.send(()).unwrap();
        });
        over.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
