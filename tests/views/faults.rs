//! Every driver call fails in turn: what is asked happens in whole or not at all.

use crate::bench::{Bench, grant};
use crate::rig::{Application, GRANULE, Stream};
use stitchpool::driver::{ErrorKind, Rights, Verb};
use stitchpool::{ArenaId, Block, Request, Result, Scope};

/// Three streams on two devices, blocks of all kinds, and holes between them.
struct Scene {
    bench: Bench,
    streams: Vec<Stream>,
    blocks: Vec<Block>,
}

fn scene() -> Scene {
    let bench = Bench::new(32);
    let streams: Vec<Stream> = [0, 1, 0].map(|device| bench.stream(device)).into();
    let mut blocks = Vec::new();
    for &stream in &streams {
        let ask = |request: Request| {
            let block = bench.pool.alloc(&request).unwrap();
            Application::fill(&*bench.host, stream.raw, block.address, block.bytes, block.address.0);
            block
        };
        blocks.push(ask(Request::new(2 * GRANULE, stream.id).exclusive()));
        blocks.push(ask(Request::new(3 * GRANULE, stream.id)));
    }
    bench.host.run_all();
    Scene { bench, streams, blocks }
}

impl Scene {
    fn rights(&self) -> Vec<Vec<[Rights; 4]>> {
        self.blocks.iter().map(|block| self.bench.rights(block.address, block.bytes)).collect()
    }

    fn check(&self) {
        for (index, block) in self.blocks.iter().enumerate() {
            let stream = self.streams[index / 2];
            Application::verify(&*self.bench.host, stream.raw, block.address, block.bytes, block.address.0);
        }
        self.bench.host.run_all();
        self.bench.assert_unhurt();
    }
}

/// Does it on a new scene for each call that it makes, failing that call.
fn with_each_call_failing(act: impl Fn(&Scene) -> Result<()>, changes: bool) {
    for kind in [ErrorKind::OutOfMemory, ErrorKind::InvalidValue, ErrorKind::Unknown] {
        let mut nth = 1;
        loop {
            let scene = scene();
            let (before, ledger) = (scene.rights(), scene.bench.host.ledger());
            scene.bench.faulty.fail_any(nth, kind);
            let outcome = act(&scene);
            let met = scene.bench.faulty.failed() > 0;
            scene.bench.faulty.clear();
            scene.check();
            if outcome.is_err() {
                assert!(met, "{outcome:?}");
                assert_eq!(scene.rights(), before, "call {nth} failed");
                let after = scene.bench.host.ledger();
                assert_eq!((after.handles, after.mappings), (ledger.handles, ledger.mappings), "call {nth} failed");
                act(&scene).unwrap();
                scene.check();
            }
            assert_eq!(scene.rights() != before, changes);
            if !met {
                assert!(nth > 3, "only {nth} calls");
                break;
            }
            nth += 1;
        }
    }
}

#[test]
fn rights_of_several_runs_change_together_whatever_call_fails() {
    let grants = [grant(2, Rights::Read), grant(1, Rights::ReadWrite)];
    with_each_call_failing(|scene| scene.bench.pool.set_rights(Scope::Arena(ArenaId::DEFAULT), &grants), true);
}

#[test]
fn a_view_is_made_or_not_whatever_call_fails() {
    let make = |scene: &Scene| {
        let parts = [0, 2, 4, 3].map(|index| scene.blocks[index].into());
        let view = scene.bench.pool.view(&parts, &[grant(0, Rights::ReadWrite), grant(2, Rights::Read)])?;
        assert_eq!(scene.bench.rights(view.address(), view.bytes()).len(), 9);
        let open = [Rights::ReadWrite, Rights::None, Rights::Read, Rights::None];
        assert_eq!(scene.bench.rights(view.address(), view.bytes()), vec![open; 9]);
        Ok(())
    };
    with_each_call_failing(make, false);
}

#[test]
fn what_the_driver_will_not_set_back_is_known_and_the_next_call_sets_it() {
    let grants = [grant(2, Rights::ReadWrite)];
    for first in 2..=6 {
        let scene = scene();
        let pool = &scene.bench.pool;
        let of = Scope::Arena(ArenaId::DEFAULT);
        for nth in first..first + 40 {
            scene.bench.faulty.fail(Verb::SetRights, nth, ErrorKind::Unknown);
        }
        pool.set_rights(of, &grants).unwrap_err();
        scene.bench.faulty.clear();
        scene.check();
        let opened = scene.rights().concat().iter().filter(|rights| rights[2] == Rights::ReadWrite).count();
        assert!(opened > 0, "call {first} and all after it failed");
        pool.set_rights(of, &[grant(2, Rights::None)]).unwrap();
        assert!(scene.rights().concat().iter().all(|rights| rights[2] == Rights::None));
        pool.set_rights(of, &grants).unwrap();
        assert!(scene.rights().concat().iter().all(|rights| rights[2] == Rights::ReadWrite));
        scene.check();
    }
}

#[test]
fn mappings_of_a_view_that_the_driver_keeps_go_later() {
    for nth in 1..=9 {
        let scene = scene();
        let pool = &scene.bench.pool;
        let parts = [0, 2, 4, 3].map(|index| scene.blocks[index].into());
        let view = pool.view(&parts, &[grant(0, Rights::ReadWrite)]).unwrap();
        let standing = scene.bench.host.ledger().mappings;
        scene.bench.faulty.fail(Verb::Unmap, nth, ErrorKind::Unknown);
        drop(view);
        assert_eq!(scene.bench.host.ledger().mappings, standing - (nth - 1), "one was refused");
        scene.check();
        assert_eq!(pool.trim().refusal, None);
        assert_eq!(scene.bench.host.ledger().mappings, standing - 9);
        scene.check();
    }
}
