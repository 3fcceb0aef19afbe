//! Suspend and resume run at the speed of the copy: shown on the host driver with the prices of an H200 and
//! the speed of its links. A machine in small: a byte stands for 512, so that 8 GiB are copied in no time.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

mod paced;

use paced::{Paced, Step, Way};
use std::sync::Arc;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{Address, CostTable, DeviceId, Grant, Kernels, RawStream, Rights, Verb};
use stitchpool::{ArenaId, Backup, Pool, Request, Scope, Settings};

/// Bytes that one byte stands for.
const SCALE: u64 = 512;
const GIB: u64 = (1 << 30) / SCALE;
/// What one plain copy of 8 GiB takes, in microseconds: measured.
const PCIE: (Way, f64) = (Way::ToHost, 155_000.0);
const NVLINK: (Way, f64) = (Way::BetweenDevices, 22_000.0);
/// To a host with a link as fast.
const FAST: (Way, f64) = (Way::ToHost, NVLINK.1);
/// What an operation may take beyond the copy.
const BAR: f64 = 1.10;

struct Rig {
    host: Arc<HostDriver>,
    paced: Arc<Paced>,
    pool: Pool,
    stream: RawStream,
    arena: ArenaId,
    blocks: Vec<(Address, u64)>,
}

/// The prices of an H200 for the machine in small.
fn table() -> CostTable {
    let mut table = CostTable::h200();
    table.by_size.iter_mut().for_each(|row| row.bytes /= SCALE);
    table
}

impl Rig {
    /// A pool with blocks of these sizes in one arena, and a link that copies 8 GiB in `copy_us`.
    fn new(scale: u64, table: CostTable, (way, copy_us): (Way, f64), sizes: &[u64]) -> Self {
        let device = HostDevice { capacity_bytes: (128 << 30) / scale, granularity_bytes: (2 << 20) / scale };
        let config = HostConfig { devices: vec![device; 2], host_memory: device, ..HostConfig::default() };
        let host = HostDriver::new(config).unwrap();
        let paced = Paced::new(host.clone(), table, way, (8 * (1_u64 << 30) / scale) as f64 / copy_us);
        // In small, the largest handle is of 64 MiB too.
        let handle_bytes_max = (64 << 20) / scale;
        let settings = Settings { backup_keep_bytes: u64::MAX, poison: false, handle_bytes_max, ..Settings::default() };
        let pool = Pool::new(paced.clone(), settings).unwrap();
        let stream = host.create_stream(DeviceId(0)).unwrap();
        let id = pool.register(stream).unwrap();
        let arena = pool.arena("weights").unwrap();
        let request = |&bytes: &u64| (pool.alloc(&Request::new(bytes, id).in_arena(arena)).unwrap().address, bytes);
        let blocks = sizes.iter().map(request).collect();
        Self { host, paced, pool, stream, arena, blocks }
    }

    fn small(link: (Way, f64), sizes: &[u64]) -> Self {
        Self::new(SCALE, table(), link, sizes)
    }

    fn each(&self, act: impl Fn(RawStream, Address, u64, u64)) {
        for (&(at, bytes), seed) in self.blocks.iter().zip(0..) {
            act(self.stream, at, bytes, seed);
        }
        let tally = self.host.tally().unwrap();
        assert_eq!((tally.wrong_bytes, tally.faults), (0, Vec::new()));
    }

    fn fill(&self) {
        // SAFETY: the stream lives, and the blocks are awake and open to its device.
        self.each(|stream, at, bytes, seed| {
            // SAFETY: the stream lives, and the blocks are awake and open to its device.
            unsafe { self.host.fill(stream, at, bytes, seed) }.unwrap();
        });
    }

    fn verify(&self) {
        // SAFETY: as above.
        self.each(|stream, at, bytes, seed| {
            // SAFETY: the stream lives, and the blocks are awake and open to its device.
            unsafe { self.host.verify(stream, at, bytes, seed) }.unwrap();
        });
    }

    fn suspend(&self, backup: &Backup) -> Course {
        self.course(|| _ = self.pool.suspend(Scope::Arena(self.arena), backup).unwrap())
    }

    fn resume(&self) -> Course {
        self.course(|| _ = self.pool.resume(Scope::Arena(self.arena)).unwrap())
    }

    fn course(&self, act: impl FnOnce()) -> Course {
        let before_us = self.paced.calls_us();
        let (took_us, steps, ()) = self.paced.timed(act);
        Course { took_us, calls_us: self.paced.calls_us() - before_us, steps }
    }
}

/// What an operation took, and what it did.
struct Course {
    took_us: f64,
    /// What of it the driver's calls cost.
    calls_us: f64,
    steps: Vec<Step>,
}

impl Course {
    fn of(&self, verb: Verb) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter().filter(move |step| step.verb == verb)
    }

    fn first(&self, verb: Verb) -> &Step {
        self.of(verb).next().unwrap()
    }

    fn last(&self, verb: Verb) -> &Step {
        self.of(verb).next_back().unwrap()
    }
}

/// Plays two cycles and gives the second, whose trays are kept from the first. The blocks' own device has these
/// rights.
fn second_cycle(link: (Way, f64), sizes: &[u64], backup: &Backup, rights: Rights) -> (Course, Course) {
    let rig = Rig::small(link, sizes);
    let device = DeviceId(0);
    let give = |rights| rig.pool.set_rights(Scope::Arena(rig.arena), &[Grant { device, rights }]).unwrap();
    rig.fill();
    give(rights);
    rig.suspend(backup);
    rig.resume();
    let courses = (rig.suspend(backup), rig.resume());
    give(Rights::ReadWrite);
    rig.verify();
    courses
}

#[test]
fn suspend_and_resume_take_no_longer_than_the_copy_or_the_driver_whichever_is_slower() {
    let (host, peer) = (Backup::Host, Backup::Peer(DeviceId(1)));
    let one = vec![8 * GIB];
    let two = vec![4 * GIB; 2];
    let sixteen = vec![GIB / 2; 16];
    let (write, read, none) = (Rights::ReadWrite, Rights::Read, Rights::None);
    let cases = [
        ("128 handles of 64 MiB to the host", &one, &host, write, true),
        ("2048 handles of 4 MiB to the host", &sixteen, &host, write, true),
        ("2048 handles of 4 MiB, read-only, to the host", &sixteen, &host, read, true),
        ("2048 handles of 4 MiB, closed, to the host", &sixteen, &host, none, true),
        // Over a link between devices unmapping and copies take turns.
        ("128 handles of 64 MiB to a peer", &one, &peer, write, false),
        ("256 handles of 32 MiB to a peer", &two, &peer, write, false),
        ("2048 handles of 4 MiB to a peer", &sixteen, &peer, write, false),
    ];
    for (name, sizes, backup, rights, at_the_speed_of_the_copy) in cases {
        let link = if *backup == host { PCIE } else { NVLINK };
        let copy_us = link.1;
        let (suspended, resumed) = second_cycle(link, sizes, backup, rights);
        for (what, course) in [("suspend", suspended), ("resume", resumed)] {
            let ratio = course.took_us / copy_us;
            println!(
                "{name}: {what} {:.1} ms = {ratio:.3} x the copy of {:.0} ms; driver calls {:.1} ms",
                course.took_us / 1e3,
                copy_us / 1e3,
                course.calls_us / 1e3,
            );
            let slower_us = if *backup == host { copy_us.max(course.calls_us) } else { copy_us + course.calls_us };
            assert!(course.took_us <= BAR * slower_us, "{name}: {what}");
            assert!(ratio <= BAR || !at_the_speed_of_the_copy, "{name}: {what} takes {ratio:.3} x the copy");
        }
    }
}

#[test]
fn idle_memory_of_what_falls_asleep_goes_behind_the_copies_too() {
    let rig = Rig::small(FAST, &[4 * GIB; 2]);
    rig.pool.free(rig.blocks[1].0).unwrap();
    let suspended = rig.suspend(&Backup::Host);
    assert!(suspended.last(Verb::Copy).at_us < suspended.first(Verb::Unmap).at_us);
    assert_eq!(suspended.of(Verb::Release).count(), 256, "idle or not");
}

#[test]
fn a_resume_queues_its_first_copy_before_it_makes_its_second_batch_of_handles() {
    let rig = Rig::small(FAST, &[4 * GIB; 2]);
    rig.suspend(&Backup::Host);
    let resumed = rig.resume();
    let first_copy = resumed.first(Verb::Copy);
    let made_before = resumed.of(Verb::Create).filter(|made| made.at_us < first_copy.at_us).count();
    assert!(made_before <= 8, "{made_before} of {} handles", resumed.of(Verb::Create).count());
    assert_eq!(resumed.of(Verb::Create).count(), 256);
    assert!(resumed.last(Verb::Create).at_us < resumed.last(Verb::Copy).done_us, "the last is made behind a copy");
}

#[test]
fn a_suspend_gives_memory_back_behind_its_copies_once_all_of_them_are_queued() {
    let rig = Rig::small(FAST, &[4 * GIB; 2]);
    rig.suspend(&Backup::Host);
    rig.resume();
    let suspended = rig.suspend(&Backup::Host);
    let (last_copy, first_release) = (suspended.last(Verb::Copy), suspended.first(Verb::Release));
    assert!(last_copy.at_us < first_release.at_us, "what can be refused comes before what cannot be undone");
    let hidden = suspended.of(Verb::Release).filter(|gone| gone.at_us < last_copy.done_us).count();
    assert!(hidden >= 256 - 2 * 8, "only {hidden} of 256 handles went while copies ran");
}

#[test]
fn what_has_no_copies_to_hide_behind_goes_only_when_all_of_it_is_unmapped() {
    let rig = Rig::small(FAST, &[4 * GIB; 2]);
    let suspended = rig.suspend(&Backup::Discard);
    assert!(suspended.last(Verb::Unmap).at_us <= suspended.first(Verb::Release).at_us);
}

#[test]
fn over_a_link_between_devices_unmapping_and_copies_take_turns_and_memory_goes_behind_the_next() {
    let rig = Rig::new(1, CostTable::h200(), NVLINK, &[3 << 29]);
    rig.suspend(&Backup::Peer(DeviceId(1)));
    rig.resume();
    let suspended = rig.suspend(&Backup::Peer(DeviceId(1)));
    let last_copy = suspended.last(Verb::Copy);
    let copies = suspended.of(Verb::Copy).count();
    assert!(suspended.first(Verb::Unmap).at_us < last_copy.at_us, "one batch of {copies} copies");
    let (released, handles) = (suspended.of(Verb::Release), suspended.of(Verb::Release).count());
    let hidden = released.filter(|gone| gone.at_us < last_copy.done_us).count();
    assert!(hidden >= handles / 2, "only {hidden} of {handles} handles went while copies ran");
    assert_eq!(suspended.of(Verb::Create).count(), 0, "kept trays serve again");
}

#[test]
fn the_second_tray_is_made_while_what_goes_to_the_first_is_copied() {
    let rig = Rig::new(1, CostTable::h200(), FAST, &[600 << 20]);
    let suspended = rig.suspend(&Backup::Host);
    assert_eq!(suspended.of(Verb::Create).count(), 2);
    assert!(suspended.first(Verb::Copy).at_us < suspended.last(Verb::Create).at_us);
    assert!(suspended.last(Verb::Create).at_us < suspended.last(Verb::Copy).done_us);
    let kept = (rig.resume(), rig.suspend(&Backup::Host)).1;
    assert_eq!(kept.of(Verb::Create).count(), 0, "kept trays serve again");
}
