//! Cases of memory in several processes: each of them is a real one, with devices of its own.

use crate::kin::{self, Kin};
use crate::rig::MIB;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{DeviceId, ErrorKind, Grant, HandleKind, RawStream, Rights};
use stitchpool::share::{Error, Exporter, Importer, Offer, Ticket, Together};
use stitchpool::{Block, Pool, Request, Settings};

const HERE: DeviceId = DeviceId(0);
const PATIENCE: Duration = Duration::from_secs(10);
const READ: [Grant; 1] = [Grant { device: HERE, rights: Rights::Read }];
const WRITE: [Grant; 1] = [Grant { device: HERE, rights: Rights::ReadWrite }];

/// A process that owns memory and offers a block of four handles.
struct Owner {
    host: Arc<HostDriver>,
    pool: Pool,
    exporter: Exporter,
    block: Block,
}

fn config() -> HostConfig {
    HostConfig {
        devices: vec![HostDevice { capacity_bytes: 64 * MIB, granularity_bytes: 2 * MIB }; 4],
        ..HostConfig::default()
    }
}

fn host(identities: &[u16]) -> Arc<HostDriver> {
    let devices = vec![config().devices[0]; identities.len()];
    HostDriver::new(HostConfig { devices, identities: identities.to_vec(), ..config() }).unwrap()
}

impl Owner {
    fn new() -> Self {
        let host = HostDriver::new(config()).unwrap();
        let settings = Settings { kind: HandleKind::FileDescriptor, handle_bytes_max: 2 * MIB, ..Settings::default() };
        let pool = Pool::new(host.clone(), settings).unwrap();
        let stream = pool.register(RawStream { device: HERE, value: 0 }).unwrap();
        let block = pool.alloc(&Request::new(8 * MIB, stream).exclusive()).unwrap();
        let exporter = Exporter::new(&pool).unwrap();
        exporter.serve().unwrap();
        Self { host, pool, exporter, block }
    }

    fn offer(&self, rights: Rights) -> Offer {
        self.exporter.offer(&[self.block.into()], rights).unwrap()
    }

    /// Nobody has an import any more: it must be so within seconds.
    #[track_caller]
    fn demand_no_imports(&self) {
        let until = Instant::now() + PATIENCE;
        while self.exporter.guests().iter().any(|guest| guest.imports > 0) {
            assert!(Instant::now() < until, "{:?}", self.exporter.guests());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(self) {
        let Self { host, pool, exporter, block } = self;
        drop(exporter);
        pool.free(block.address).unwrap();
        pool.check().unwrap();
        drop(pool);
        let ledger = host.ledger();
        assert!(ledger.is_empty() && ledger.refusals == 0, "left behind: {ledger:?}");
    }
}

/// Plays an owner until the parent says no more: it says its ticket, and by which bytes it is known.
fn play_owner() {
    let owner = Owner::new();
    owner.host.poke(owner.block.address, b"theirs").unwrap();
    let offer = owner.offer(Rights::ReadWrite);
    kin::say_ticket(offer.ticket());
    kin::listen();
    drop(offer);
    owner.end();
}

#[test]
fn f45_handles_come_over_the_socket_where_stealing_them_from_the_process_is_denied() {
    use rustix::process::{
        DumpableBehavior, Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open, set_dumpable_behavior,
    };
    const TEST: &str = "share::f45_handles_come_over_the_socket_where_stealing_them_from_the_process_is_denied";
    if kin::part().is_some() {
        // As in a container: nobody without the privilege may look into this process.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap();
        return play_owner();
    }
    let mut owner = Kin::start(TEST, "owner");
    let ticket = owner.hear_ticket();
    let pid = Pid::from_raw(i32::try_from(owner.pid()).unwrap()).unwrap();
    let stolen = pidfd_getfd(pidfd_open(pid, PidfdFlags::empty()).unwrap(), 0, PidfdGetfdFlags::empty());
    assert!(stolen.is_err() || rustix::process::geteuid().is_root(), "the process can be looked into after all");
    let host = host(&[0]);
    let importer = Importer::connect(host.clone(), &ticket).unwrap();
    let import = importer.import(&ticket, &READ).unwrap();
    let mut found = [0; 6];
    host.peek(import.address().unwrap(), &mut found).unwrap();
    assert_eq!(&found, b"theirs");
    drop((import, importer));
    owner.demand_success();
    // Nobody is there any more: the error says what could be the matter.
    let error = Importer::connect(host.clone(), &ticket).unwrap_err().to_string();
    assert!(error.contains("nobody listens there") && error.contains("container"), "{error}");
    assert!(host.ledger().is_empty());
}

#[test]
fn f46_devices_are_found_by_identity_whatever_their_order_in_the_other_process() {
    const TEST: &str = "share::f46_devices_are_found_by_identity_whatever_their_order_in_the_other_process";
    if let Some(part) = kin::part() {
        let ticket = kin::listen_for_ticket();
        let host = if part == "reversed" { host(&[3, 2, 1, 0]) } else { host(&[2]) };
        let importer = Importer::connect(host.clone(), &ticket).unwrap();
        let device = importer.device_of(&ticket).unwrap_or(HERE);
        let imported = importer.import(&ticket, &[Grant { device, rights: Rights::Read }]);
        kin::say(&imported.map_or_else(|error| error.to_string(), |_| device.to_string()));
        drop(importer);
        assert!(host.ledger().is_empty());
        return;
    }
    let owner = Owner::new();
    let offer = owner.offer(Rights::Read);
    let said = ["reversed", "one"].map(|part| {
        let mut child = Kin::start(TEST, part);
        child.pass(offer.ticket());
        let said = child.hear();
        child.demand_success();
        said
    });
    assert_eq!(said[0], "device 3", "what is first here is last there");
    let (theirs, seen) = ("2e686f730000", "2e686f730002");
    let plain = said[1].replace('-', "");
    assert!(plain.contains(theirs) && plain.contains(seen) && said[1].contains("does not see"), "{}", said[1]);
    owner.demand_no_imports();
    drop(offer);
    owner.end();
}

#[test]
fn f47_two_exports_of_one_range_are_one_ticket_and_one_import_with_a_count() {
    const TEST: &str = "share::f47_two_exports_of_one_range_are_one_ticket_and_one_import_with_a_count";
    if kin::part().is_some() {
        let tickets = [kin::listen_for_ticket(), kin::listen_for_ticket()];
        let host = host(&[0]);
        let importer = Importer::connect(host.clone(), &tickets[0]).unwrap();
        let [one, other] = tickets.map(|ticket| importer.import(&ticket, &READ).unwrap());
        assert!(one.is(&other));
        assert_eq!(host.ledger().imported_bytes[&HERE], 8 * MIB, "the memory is here once");
        drop(one);
        assert_eq!(host.ledger().imported_bytes[&HERE], 8 * MIB, "and stays for the other");
        drop(other);
        assert!(host.ledger().is_empty());
        return;
    }
    let owner = Owner::new();
    let offers = [(); 2].map(|()| owner.offer(Rights::Read));
    assert_eq!(offers[0].ticket().to_bytes(), offers[1].ticket().to_bytes());
    let mut child = Kin::start(TEST, "importer");
    offers.iter().for_each(|offer| child.pass(offer.ticket()));
    child.demand_success();
    owner.demand_no_imports();
    drop(offers);
    owner.end();
}

#[test]
fn f48_an_importer_lets_go_within_seconds_of_its_owners_death_every_time() {
    const TEST: &str = "share::f48_an_importer_lets_go_within_seconds_of_its_owners_death_every_time";
    if kin::part().is_some() {
        return play_owner();
    }
    let host = host(&[0]);
    for round in 0..5 {
        let mut owner = Kin::start(TEST, "owner");
        let ticket = owner.hear_ticket();
        let importer = Importer::connect(host.clone(), &ticket).unwrap();
        importer.watch().unwrap();
        // Twice, and with other rights: nothing is counted wrong.
        let imports = [&READ, &READ, &WRITE].map(|grants| importer.import(&ticket, grants).unwrap());
        assert_eq!(host.ledger().imported_bytes[&HERE], 8 * MIB);
        owner.kill();
        let start = Instant::now();
        while !host.ledger().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(2), "round {round}: {:?}", host.ledger());
            std::thread::sleep(Duration::from_millis(1));
        }
        for import in &imports {
            let error = import.address().unwrap_err();
            assert!(matches!(error, Error::Lost { .. }), "{error}");
        }
        let error = importer.import(&ticket, &READ).unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error}");
    }
    assert_eq!(host.ledger().refusals, 0, "{:?}", host.ledger().last_refusal);
}

#[test]
fn f48_a_dead_importer_holds_nothing_in_its_owner() {
    const TEST: &str = "share::f48_a_dead_importer_holds_nothing_in_its_owner";
    if kin::part().is_some() {
        let ticket = kin::listen_for_ticket();
        let importer = Importer::connect(host(&[0]), &ticket).unwrap();
        let _import = importer.import(&ticket, &WRITE).unwrap();
        kin::say("mapped");
        kin::listen();
        return;
    }
    let owner = Owner::new();
    for _ in 0..5 {
        let offer = owner.offer(Rights::ReadWrite);
        let mut child = Kin::start(TEST, "importer");
        child.pass(offer.ticket());
        assert_eq!(child.hear(), "mapped");
        let error = owner.exporter.recall(&offer, Duration::from_millis(20)).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", child.pid())), "{error}");
        child.kill();
        owner.exporter.recall(&offer, Duration::from_secs(2)).unwrap();
    }
    owner.end();
}

#[test]
fn f54_how_handles_may_leave_is_chosen_told_and_never_changed_in_silence() {
    for (kind, fabric) in
        [(HandleKind::Private, false), (HandleKind::FileDescriptor, false), (HandleKind::Fabric, true)]
    {
        let host = HostDriver::new(HostConfig { fabric, ..config() }).unwrap();
        let pool = Pool::new(host, Settings { kind, ..Settings::default() }).unwrap();
        let stream = pool.register(RawStream { device: HERE, value: 0 }).unwrap();
        let block = pool.alloc(&Request::new(2 * MIB, stream)).unwrap();
        let exporter = Exporter::new(&pool).unwrap();
        match exporter.offer(&[block.into()], Rights::Read) {
            Ok(offer) => assert_eq!(offer.ticket().kind(), kind),
            Err(error) => {
                assert_eq!(kind, HandleKind::Private, "{error}");
                assert!(error.to_string().contains("build the pool with kind FileDescriptor"), "{error}");
            }
        }
        pool.free(block.address).unwrap();
    }
    // A platform that grants no fabric handles says so; nothing else is taken in their place.
    let settings = Settings { kind: HandleKind::Fabric, ..Settings::default() };
    let pool = Pool::new(HostDriver::new(config()).unwrap(), settings).unwrap();
    let stream = pool.register(RawStream { device: HERE, value: 0 }).unwrap();
    let error = pool.alloc(&Request::new(2 * MIB, stream)).unwrap_err();
    let refused = matches!(&error, stitchpool::Error::Driver(refusal) if refusal.kind == ErrorKind::NotPermitted);
    assert!(refused, "{error}");
}

/// Plays a rank: for each line it imports together with the others and says how that went.
fn play_rank(part: &str) {
    let ticket = kin::listen_for_ticket();
    // The rank that is short of addresses cannot map eight MiB.
    let address_space_bytes = if part == "short" { 4 * MIB } else { 126 << 40 };
    let host = HostDriver::new(HostConfig { address_space_bytes, ..config() }).unwrap();
    let importer = Importer::connect(host.clone(), &ticket).unwrap();
    while !kin::listen().is_empty() {
        let said = match importer.import(&ticket, &WRITE) {
            Ok(import) => {
                host.poke(import.address().unwrap(), b"mapped").unwrap();
                "mapped".to_owned()
            }
            Err(error) => error.to_string(),
        };
        assert!(host.ledger().is_empty(), "{:?}", host.ledger());
        kin::say(&said);
    }
}

fn ranks(test: &str, parts: [&str; 4], ticket: &Ticket) -> Vec<Kin> {
    let start = |part: &&str| {
        let mut rank = Kin::start(test, part);
        rank.pass(ticket);
        rank
    };
    parts.iter().map(start).collect()
}

#[test]
fn f60_a_rank_that_fails_to_map_takes_all_back_and_none_hangs() {
    const TEST: &str = "share::f60_a_rank_that_fails_to_map_takes_all_back_and_none_hangs";
    if let Some(part) = kin::part() {
        return play_rank(&part);
    }
    let owner = Owner::new();
    let together = Together { ranks: 4, within: PATIENCE };
    let offer = owner.exporter.offer_together(&[owner.block.into()], Rights::ReadWrite, together).unwrap();
    let start = Instant::now();
    // One is short of addresses: it says so itself, and the others are told by whom they were called off.
    let mut group = ranks(TEST, ["well", "well", "short", "well"], offer.ticket());
    group.iter_mut().for_each(|rank| rank.tell("import"));
    let short_pid = format!("process {} failed", group[2].pid());
    for (index, said) in group.iter_mut().map(Kin::hear).enumerate() {
        let words = if index == 2 { "driver refused to reserve" } else { &short_pid };
        assert!(said.contains(words), "rank {index}: {said}");
    }
    owner.demand_no_imports();
    // Without it the others try again with one that is well.
    group.remove(2).demand_success();
    let mut fourth = Kin::start(TEST, "well");
    fourth.pass(offer.ticket());
    group.push(fourth);
    group.iter_mut().for_each(|rank| rank.tell("import"));
    assert!(group.iter_mut().map(Kin::hear).all(|said| said == "mapped"));
    owner.demand_no_imports();
    // Three wait for the fourth, and one of them dies.
    group[..3].iter_mut().for_each(|rank| rank.tell("import"));
    while owner.exporter.guests().iter().map(|guest| guest.imports).sum::<u32>() < 3 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(2));
    }
    let dead = group.remove(0);
    let dead_pid = format!("process {} has ended", dead.pid());
    dead.kill();
    for said in group[..2].iter_mut().map(Kin::hear) {
        assert!(said.contains(&dead_pid), "{said}");
    }
    assert!(start.elapsed() < PATIENCE, "nobody has waited for the time allowed: {:?}", start.elapsed());
    group.into_iter().for_each(Kin::demand_success);
    owner.demand_no_imports();
    drop(offer);
    owner.end();
}
