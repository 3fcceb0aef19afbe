//! Listeners and the memory that they are told of: what has come back is open by then. F21, F41.

use crate::rig::{KIB, Shape};
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use stitchpool::chunks::Segment;
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
