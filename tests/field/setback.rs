//! Suspends and resumes that are refused half way, of ten handles each, which take two batches: F11, F13.

use crate::backup::Directory;
use crate::rig::{HERE, Rig, Shape, Stream};
use crate::sleep::{CHUNK, filled, verify};
use std::sync::{Arc, Mutex};
use stitchpool::driver::{Address, DeviceId, ErrorKind, Fault, Verb};
use stitchpool::{ArenaId, Backup, Error, Interest, Listener, Request, Scope, Segment, Settings};

/// Of what ten handles sleep.
#[derive(Clone, Copy, Debug)]
enum Whole {
    Arena,
    Block,
    Range,
}

/// A pool on two devices, and ten handles of it, with their content.
struct Cast {
    rig: Rig,
    stream: Stream,
    arena: ArenaId,
    scope: Scope,
    blocks: Vec<Address>,
    block_bytes: u64,
    /// Memory that stays where it is.
    awake_bytes: u64,
}

impl Cast {
    fn new(whole: Whole, settings: impl FnOnce(Settings) -> Settings) -> Self {
        let shape = Shape { devices: 2, ..Shape::exact(CHUNK, 64) };
        let rig = Shape { settings: settings(shape.settings.clone()), ..shape }.build();
        let stream = rig.stream();
        let arena = rig.pool().arena("w").unwrap();
        let (scope, blocks, block_bytes, awake_bytes) = match whole {
            Whole::Arena => {
                let mut blocks = filled(&rig, stream, arena, 6, 2 * CHUNK);
                rig.free(blocks.pop().unwrap());
                (Scope::Arena(arena), blocks, 2 * CHUNK, 0)
            }
            Whole::Block | Whole::Range => {
                let chunks = if matches!(whole, Whole::Block) { 10 } else { 12 };
                let request = Request::new(chunks * CHUNK, stream.id).in_arena(arena).exclusive();
                let block = rig.ask(&request).unwrap();
                rig.fill(stream, block, chunks * CHUNK, 0);
                let scope = match whole {
                    Whole::Range => Scope::Range { address: block + CHUNK, bytes: 10 * CHUNK },
                    _ => Scope::Block(block),
                };
                (scope, vec![block], chunks * CHUNK, (chunks - 10) * CHUNK)
            }
        };
        rig.assert_right();
        Self { rig, stream, arena, scope, blocks, block_bytes, awake_bytes }
    }

    fn suspend(&self, backup: &Backup) -> Result<(), Error> {
        self.rig.pool().suspend(self.scope, backup).map(drop)
    }

    fn resume(&self) -> Result<(), Error> {
        self.rig.pool().resume(self.scope).map(drop)
    }

    fn suspended_bytes(&self) -> u64 {
        self.rig.pool().stats().devices[0].holdings.suspended_bytes
    }

    /// Every byte is there.
    fn verify(&self) {
        assert_eq!(self.suspended_bytes(), 0);
        verify(&self.rig, self.stream, &self.blocks, self.block_bytes);
    }
}

/// Suspends to `backup`, or resumes from it, while call after call fails alone.
fn play_each_fault(whole: Whole, backup: &Backup, resume: bool) {
    for nth in 1.. {
        let mut cast = Cast::new(whole, |settings| settings);
        if resume {
            cast.suspend(backup).unwrap();
        }
        cast.rig.faulty.fail_any(nth, ErrorKind::Unknown);
        let failed = if resume { cast.resume() } else { cast.suspend(backup) };
        let met = cast.rig.faulty.failed();
        cast.rig.faulty.clear();
        cast.rig.pool().check().unwrap_or_else(|broken| panic!("call {nth}, {failed:?}: {broken}"));
        // What the driver would not take back on the way is in quarantine, and counted.
        cast.rig.scarred = cast.rig.pool().stats().quarantined > 0;
        if failed.is_err() && resume {
            assert_eq!(cast.rig.ledger().physical_bytes_on(HERE), cast.awake_bytes, "{whole:?}, call {nth}");
        } else if failed.is_err() {
            cast.verify();
        }
        cast.suspend(backup).unwrap();
        cast.resume().unwrap();
        cast.verify();
        if met == 0 {
            assert!(nth > 24, "only {nth} calls");
            break;
        }
    }
}

#[test]
fn a_fault_at_any_call_of_suspend_or_resume_changes_nothing_and_the_call_works_later() {
    let directory = Directory::new("each-fault");
    for backup in [Backup::Host, Backup::Peer(DeviceId(1)), Backup::Disk(directory.0.clone())] {
        play_each_fault(Whole::Arena, &backup, false);
        play_each_fault(Whole::Arena, &backup, true);
    }
}

#[test]
fn a_fault_at_any_call_changes_nothing_where_a_block_or_a_part_of_one_sleeps() {
    for (whole, backup) in [(Whole::Block, Backup::Host), (Whole::Range, Backup::Peer(DeviceId(1)))] {
        play_each_fault(whole, &backup, false);
        play_each_fault(whole, &backup, true);
    }
}

#[test]
fn a_fault_at_every_call_after_one_leaves_content_that_a_resume_brings_back() {
    let directory = Directory::new("every-fault");
    let disk = Backup::Disk(directory.0.clone());
    for (whole, backup) in [(Whole::Arena, &Backup::Host), (Whole::Arena, &disk), (Whole::Range, &Backup::Host)] {
        for (resume, nth) in [false, true].into_iter().flat_map(|resume| (1..80).map(move |nth| (resume, nth))) {
            let mut cast = Cast::new(whole, |settings| settings);
            cast.rig.scarred = true;
            if resume {
                cast.suspend(backup).unwrap();
            }
            cast.rig.faulty.fail_all_from(nth, ErrorKind::Unknown);
            let _ = if resume { cast.resume() } else { cast.suspend(backup) };
            cast.rig.faulty.clear();
            cast.resume().unwrap_or_else(|error| panic!("{whole:?}, call {nth}: {error}"));
            cast.verify();
        }
    }
}

/// With trays that are kept a suspend makes no memory: what is made is made to bring back what had gone.
fn with_kept_trays() -> Cast {
    let cast = Cast::new(Whole::Arena, |settings| Settings { backup_keep_bytes: u64::MAX, ..settings });
    cast.suspend(&Backup::Host).unwrap();
    cast.resume().unwrap();
    cast
}

#[test]
fn a_suspend_that_fails_after_memory_went_brings_it_back_or_lets_what_went_sleep_on() {
    for taken_meanwhile in [false, true] {
        let cast = with_kept_trays();
        let faulty = &cast.rig.faulty;
        faulty.fail(Verb::Unmap, 10, ErrorKind::Unknown);
        if taken_meanwhile {
            let kind = ErrorKind::OutOfMemory;
            faulty.arm(Fault { verb: Some(Verb::Create), nth: 3, lasting: true, kind });
        }
        let made = faulty.calls(Verb::Create);
        let error = cast.suspend(&Backup::Host).unwrap_err();
        assert!(error.to_string().contains(Verb::Unmap.word()), "{error}");
        assert!(faulty.calls(Verb::Create) > made, "the first batch had gone");
        faulty.clear();
        cast.rig.pool().check().unwrap();
        if taken_meanwhile {
            assert_eq!(cast.suspended_bytes(), 8 * CHUNK, "what went sleeps on, and no more");
            assert_eq!(cast.rig.ledger().physical_bytes_on(HERE), 2 * CHUNK);
            let request = Request::new(CHUNK, cast.stream.id).in_arena(cast.arena);
            let refused = cast.rig.pool().alloc(&request).unwrap_err();
            assert!(matches!(refused, Error::Asleep { .. }), "{refused}");
            cast.resume().unwrap();
        }
        cast.verify();
    }
}

/// Keeps what it was told last.
#[derive(Default)]
struct Clerk {
    returned: Mutex<Vec<Segment>>,
}

impl Listener for Clerk {
    fn before_leave(&self, _: &[Segment]) -> Result<(), String> {
        Ok(())
    }

    fn after_return(&self, segments: &[Segment]) {
        *self.returned.lock().unwrap() = segments.to_vec();
    }
}

#[test]
fn a_listener_hears_of_the_memory_that_stands_after_a_suspend_was_refused() {
    let cast = with_kept_trays();
    let clerk = Arc::new(Clerk::default());
    cast.rig.pool().listen(clerk.clone(), Interest::Pool).unwrap();
    let standing = || {
        let segments = cast.blocks.iter().flat_map(|&at| cast.rig.pool().segments(at, cast.block_bytes).unwrap());
        segments.map(|segment| (segment.at, segment.handle)).collect::<Vec<_>>()
    };
    let before = standing();
    cast.rig.faulty.fail(Verb::Unmap, 10, ErrorKind::Unknown);
    cast.suspend(&Backup::Host).unwrap_err();
    let told = clerk.returned.lock().unwrap().iter().map(|segment| (segment.at, segment.handle)).collect::<Vec<_>>();
    assert_eq!(told, standing());
    assert_ne!(told, before, "the first batch has other memory");
    cast.verify();
}
