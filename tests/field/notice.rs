//! Listeners and the memory that they are told of: what has come back is open by then, and nobody waits for
//! them with a lock. F12, F41.

use crate::rig::{KIB, Shape};
use crate::watchdog::within;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use stitchpool::chunks::Segment;
use stitchpool::driver::host::StreamMode;
use stitchpool::driver::{DeviceId, ErrorKind, Verb};
use stitchpool::{Backup, Error, Interest, Listener, Pool, Request, Scope};

const CHUNK: u64 = 64 * KIB;
const THERE: DeviceId = DeviceId(1);

/// Asks for memory of an arena whenever some of it has come back.
struct User {
    pool: Pool,
    request: Request,
    /// What came of it.
    served: Mutex<Vec<Result<(), Error>>>,
}

impl Listener for User {
    fn before_leave(&self, _: &[Segment]) -> Result<(), String> {
        Ok(())
    }

    fn after_return(&self, _: &[Segment]) {
        let served = self.pool.alloc(&self.request).and_then(|block| self.pool.free(block.address));
        self.served.lock().unwrap().push(served);
    }
}

struct Objector(AtomicBool);

impl Listener for Objector {
    fn before_leave(&self, _: &[Segment]) -> Result<(), String> {
        if self.0.load(Ordering::Relaxed) { Err("it is registered".into()) } else { Ok(()) }
    }

    fn after_return(&self, _: &[Segment]) {}
}

#[test]
fn whoever_hears_that_memory_is_back_finds_its_arena_open() {
    let rig = Shape { devices: 2, ..Shape::exact(CHUNK, 64) }.build();
    let stream = rig.stream();
    let arena = rig.pool().arena("weights").unwrap();
    let request = Request::new(2 * CHUNK, stream.id).in_arena(arena);
    rig.ask(&request).unwrap();
    let [one, two] = [0, 1].map(|_| rig.ask(&request.clone().exclusive()).unwrap());
    let user = Arc::new(User { pool: rig.pool().clone(), request, served: Mutex::default() });
    let objector = Arc::new(Objector(AtomicBool::new(false)));
    let ids = [
        rig.pool().listen(user.clone(), Interest::Arena(arena)).unwrap(),
        rig.pool().listen(objector.clone(), Interest::Pool).unwrap(),
    ];
    let (pool, scope) = (rig.pool(), Scope::Arena(arena));
    let heard = |what: &str, times: usize| {
        assert_eq!(take(&mut *user.served.lock().unwrap()), vec![Ok(()); times], "{what}");
        rig.assert_sound();
    };

    objector.0.store(true, Ordering::Relaxed);
    assert!(matches!(pool.suspend(scope, &Backup::Host), Err(Error::Vetoed { .. })));
    heard("a suspend that another listener forbade", 1);
    assert!(matches!(pool.migrate(scope, THERE), Err(Error::Vetoed { .. })));
    heard("a migration that another listener forbade", 1);
    objector.0.store(false, Ordering::Relaxed);

    for verb in [Verb::Copy, Verb::Unmap] {
        rig.faulty.fail(verb, 1, ErrorKind::Unknown);
        pool.suspend(scope, &Backup::Host).unwrap_err();
        heard("a suspend that the driver refused", 1);
        rig.faulty.fail(verb, 1, ErrorKind::Unknown);
        pool.migrate(scope, THERE).unwrap_err();
        heard("a migration that the driver refused", 1);
    }
    pool.migrate(scope, THERE).unwrap();
    heard("a migration", 1);
    pool.exchange(Scope::Block(one), Scope::Block(two)).unwrap();
    heard("an exchange", 1);
    pool.suspend(scope, &Backup::Host).unwrap();
    heard("a suspend", 0);
    rig.faulty.fail(Verb::Create, 1, ErrorKind::Unknown);
    pool.resume(scope).unwrap_err();
    heard("a resume that the driver refused", 0);
    pool.resume(scope).unwrap();
    heard("a resume", 1);
    assert!(ids.into_iter().all(|id| pool.unlisten(id)));
}

/// Wants a lock that the other thread has while it uses the pool.
struct Locking(Arc<Mutex<u64>>);

impl Listener for Locking {
    fn before_leave(&self, _: &[Segment]) -> Result<(), String> {
        *self.0.lock().unwrap() += 1;
        Ok(())
    }

    fn after_return(&self, _: &[Segment]) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn f41_memory_moves_under_threads_that_have_the_lock_its_listener_wants() {
    within(Duration::from_secs(60), || {
        let rig = Shape { devices: 2, streams: StreamMode::Immediate, ..Shape::exact(CHUNK, 64) }.build();
        let (stream, arena) = (rig.stream(), rig.pool().arena("weights").unwrap());
        let request = |chunks: u64| Request::new(chunks * CHUNK, stream.id).in_arena(arena);
        let [kept, freed] = [0, 1].map(|_| (0..8).map(|_| rig.ask(&request(2)).unwrap()).collect::<Vec<_>>());
        kept.iter().zip(0..).for_each(|(&block, seed)| rig.mark(block, 2 * CHUNK, seed));
        freed.iter().for_each(|&block| rig.shadow.leave(block));
        let lock = Arc::new(Mutex::new(0));
        let id = rig.pool().listen(Arc::new(Locking(lock.clone())), Interest::Pool).unwrap();
        let moving = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut freed = freed.into_iter();
                let mut rounds = 0;
                while moving.load(Ordering::Relaxed) {
                    let held = lock.lock().unwrap();
                    rounds += 1;
                    // F12: it goes whether it is awake, asleep or on its way.
                    if rounds % 16 == 0 {
                        freed.next().into_iter().for_each(|block| rig.pool().free(block).unwrap());
                    }
                    match rig.pool().alloc(&request(1)) {
                        Ok(block) => rig.pool().free(block.address).unwrap(),
                        Err(Error::Asleep { .. } | Error::Busy { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    let elsewhere = rig.pool().alloc(&Request::new(3 * CHUNK, stream.id)).unwrap();
                    rig.pool().free(elsewhere.address).unwrap();
                    drop(held);
                }
                freed.for_each(|block| rig.pool().free(block).unwrap());
            });
            for round in 0..60 {
                rig.pool().suspend(Scope::Arena(arena), &Backup::Host).unwrap();
                rig.pool().resume(Scope::Arena(arena)).unwrap();
                rig.pool().migrate(Scope::Arena(arena), DeviceId(1 - round % 2)).unwrap();
            }
            moving.store(false, Ordering::Relaxed);
        });
        assert!(kept.iter().zip(0..).all(|(&block, seed)| rig.is_marked(block, 2 * CHUNK, seed)));
        assert!(*lock.lock().unwrap() >= 60 * 4);
        assert!(rig.pool().unlisten(id));
    });
}
