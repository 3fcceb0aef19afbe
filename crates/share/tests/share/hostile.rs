//! Messages that no well-meaning process sends: they are refused in words, their sender is sent away, and
//! nothing is lost.

use crate::bench::{GRANULE, Owner, READ, Side, part};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::time::Duration;
use stitchpool_driver::Rights;
use stitchpool_pool::Block;
use stitchpool_share::{Error, Exporter, Importer, Offer, Ticket};

const MARK: &[u8; 4] = b"spsh";

fn message(serial: u32, kind: u16, body: &[u8]) -> Vec<u8> {
    [&MARK[..], &serial.to_le_bytes(), &kind.to_le_bytes(), body].concat()
}

fn hello(version: u32) -> Vec<u8> {
    message(1, 1, &version.to_le_bytes())
}

fn socket() -> OwnedFd {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn say(socket: &OwnedFd, bytes: &[u8]) {
    let _ = rustix::net::send(socket, bytes, SendFlags::NOSIGNAL);
}

/// What comes next; empty: the other end has closed.
fn hear(socket: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    let mut control = RecvAncillaryBuffer::new(&mut []);
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty());
    bytes.truncate(got.map_or(0, |got| got.bytes));
    bytes
}

/// A path that is this test's alone.
fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("stitchpool-hostile-{name}-{}", std::process::id()))
}

struct Stage {
    owner: Owner,
    exporter: Exporter,
    offer: Offer,
    block: Block,
    path: PathBuf,
}

impl Stage {
    fn new(name: &str) -> Self {
        let owner = Owner::new();
        let (block, path) = (owner.block(1), place(name));
        let exporter = Exporter::at_path(&owner.pool, &path).unwrap();
        exporter.serve().unwrap();
        let offer = exporter.offer(&[part(block)], Rights::Read).unwrap();
        Self { owner, exporter, offer, block, path }
    }

    fn connect(&self) -> OwnedFd {
        let socket = socket();
        rustix::net::connect(&socket, &SocketAddrUnix::new(self.path.as_path()).unwrap()).unwrap();
        socket
    }

    /// A well-meaning process is served as before, and nothing was lost.
    fn end(self) {
        let side = Side::new(1);
        let importer = side.importer(self.offer.ticket());
        importer.import(self.offer.ticket(), &READ).unwrap();
        drop((importer, self.offer, self.exporter));
        self.owner.end(&[self.block]);
        side.demand_empty();
    }
}

#[test]
fn a_garbled_request_is_refused_and_its_sender_sent_away() {
    let stage = Stage::new("garbled");
    let open = |tail: &[u8]| message(2, 2, &[&1_u64.to_le_bytes()[..], tail].concat());
    let cases: [(&str, Vec<u8>); 8] = [
        ("ends", vec![0x73]),
        ("no message of ours", b"GET / HTTP/1.1\r\n".to_vec()),
        ("unknown", message(2, 999, &[])),
        ("ends 1 bytes early", open(&[])),
        ("names no rights", open(&[7])),
        ("follow its end", open(&[1, 1])),
        ("longer than 4096 bytes", vec![1; 5000]),
        ("a text of", message(2, 5, &[&1_u64.to_le_bytes()[..], &[1], &u32::MAX.to_le_bytes()].concat())),
    ];
    for (words, bytes) in cases {
        let socket = stage.connect();
        say(&socket, &hello(1));
        assert!(!hear(&socket).is_empty());
        say(&socket, &bytes);
        let refusal = String::from_utf8_lossy(&hear(&socket)).into_owned();
        assert!(refusal.contains(words), "{words:?} is not in {refusal:?}");
        assert!(hear(&socket).is_empty(), "the connection ends");
    }
    stage.end();
}

#[test]
fn another_version_is_refused_with_both_named_and_may_ask_nothing() {
    let stage = Stage::new("version");
    let socket = stage.connect();
    say(&socket, &hello(7));
    let refusal = String::from_utf8_lossy(&hear(&socket)).into_owned();
    assert!(refusal.contains("version 1") && refusal.contains("version 7"), "{refusal}");
    say(&socket, &message(2, 2, &[&1_u64.to_le_bytes()[..], &[1]].concat()));
    let refusal = String::from_utf8_lossy(&hear(&socket)).into_owned();
    assert!(refusal.contains("before a greeting"), "{refusal}");
    assert!(hear(&socket).is_empty());
    stage.end();
}

#[test]
fn what_was_not_opened_is_not_handed_out_and_more_rights_than_offered_are_refused() {
    let stage = Stage::new("unopened");
    let socket = stage.connect();
    say(&socket, &hello(1));
    hear(&socket);
    let one = 1_u64.to_le_bytes();
    for (kind, tail) in [(3, &0_u32.to_le_bytes()[..]), (4, &0_u32.to_le_bytes()), (2, &[2])] {
        say(&socket, &message(2, kind, &[&one[..], tail].concat()));
        let refusal = String::from_utf8_lossy(&hear(&socket)).into_owned();
        assert!(refusal.contains("was not opened") || refusal.contains("Read is offered"), "{refusal}");
    }
    for generation in [0, 2, u64::MAX] {
        say(&socket, &message(2, 2, &[&u64::to_le_bytes(generation)[..], &[1]].concat()));
        let refusal = String::from_utf8_lossy(&hear(&socket)).into_owned();
        assert!(refusal.contains("never gave it"), "{refusal}");
    }
    // Leaving what was not opened takes nothing away, and is not answered.
    say(&socket, &message(0, 6, &one));
    say(&socket, &message(2, 3, &[&one[..], &u32::MAX.to_le_bytes()].concat()));
    assert!(String::from_utf8_lossy(&hear(&socket)).contains("was not opened"));
    stage.end();
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed_and_their_sender_sent_away() {
    let stage = Stage::new("descriptors");
    let socket = stage.connect();
    let (reader, writer) = std::io::pipe().unwrap();
    let descriptors = [writer.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let bytes = hello(1);
    rustix::net::sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
    drop(writer);
    assert!(String::from_utf8_lossy(&hear(&socket)).contains("brings no descriptors"));
    assert!(hear(&socket).is_empty());
    // The pipe ends only when its last writer is closed.
    assert_eq!(std::io::Read::read(&mut { reader }, &mut [0]).unwrap(), 0);
    stage.end();
}

#[test]
fn a_process_too_many_is_refused_and_those_before_are_served() {
    let stage = Stage::new("crowd");
    let crowd: Vec<OwnedFd> = (0..256).map(|_| stage.connect()).collect();
    let last = stage.connect();
    let refusal = String::from_utf8_lossy(&hear(&last)).into_owned();
    assert!(refusal.contains("256 processes are connected"), "{refusal}");
    say(&crowd[255], &hello(1));
    assert!(!hear(&crowd[255]).is_empty());
    drop(crowd);
    crate::bench::eventually("they are gone", || stage.exporter.guests().is_empty());
    stage.end();
}

/// An exporter that answers what it is told to, one answer a question, each with the question's number.
fn impostor(name: &str, ticket: &Ticket, answers: Vec<(u16, Vec<u8>)>) -> (Ticket, std::thread::JoinHandle<()>) {
    let path = place(name);
    let door = socket();
    rustix::net::bind(&door, &SocketAddrUnix::new(path.as_path()).unwrap()).unwrap();
    rustix::net::listen(&door, 4).unwrap();
    let mut bytes = ticket.to_bytes();
    let spelled = path.as_os_str().as_encoded_bytes();
    bytes[14] = spelled.len() as u8;
    bytes[96..252].fill(0);
    bytes[96..96 + spelled.len()].copy_from_slice(spelled);
    let sum = crc32fast::hash(&bytes[..252]);
    bytes[252..].copy_from_slice(&sum.to_le_bytes());
    let serve = move || {
        let visitor = rustix::net::accept(&door).unwrap();
        std::fs::remove_file(path).unwrap();
        for (kind, body) in answers {
            let asked = hear(&visitor);
            if asked.is_empty() {
                return;
            }
            let serial = u32::from_le_bytes(asked[4..8].try_into().unwrap());
            say(&visitor, &message(serial, kind, &body));
        }
        // It stays, and says nothing more, until it is left.
        while !hear(&visitor).is_empty() {}
    };
    (Ticket::of_bytes(&bytes).unwrap(), std::thread::spawn(serve))
}

#[test]
fn an_impostor_gets_a_clear_error_and_nothing_stays_mapped() {
    let stage = Stage::new("impostor");
    let real = stage.offer.ticket();
    let welcome = (101, real.to_bytes()[16..32].to_vec());
    let layout = |bytes: u64, handles: u32, parts: u32| {
        let body = [&bytes.to_le_bytes()[..], &handles.to_le_bytes(), &parts.to_le_bytes(), &0_u64.to_le_bytes()];
        (102, body.concat())
    };
    let right = layout(GRANULE, 1, 1);
    let handles = |count: u32, size: usize| (103, [&count.to_le_bytes()[..], &vec![0; size]].concat());
    let cases = [
        ("is not what the ticket says", vec![layout(GRANULE, u32::MAX, 1)]),
        ("is not what the ticket says", vec![layout(u64::MAX, 1, 1)]),
        ("answers another question", vec![(105, [&1_u64.to_le_bytes()[..], &[0], &0_u32.to_le_bytes()].concat())]),
        ("records in", vec![right.clone(), handles(u32::MAX, 8)]),
        ("ends", vec![right.clone(), handles(2, 89)]),
        ("fewer descriptors", vec![right.clone(), handles(1, 89)]),
        ("fewer handles", vec![right.clone(), handles(0, 0)]),
        ("follow its end", vec![right.clone(), handles(0, 1)]),
        ("unknown", vec![(999, vec![])]),
        ("did not send handles within", vec![right]),
    ];
    for (index, (words, answers)) in cases.into_iter().enumerate() {
        let all = std::iter::once(welcome.clone()).chain(answers).collect();
        let (ticket, served) = impostor(&format!("impostor{index}"), real, all);
        let side = Side::new(1);
        let importer = Importer::connect_within(side.driver(), &ticket, Duration::from_millis(300)).unwrap();
        let error = importer.import(&ticket, &READ).unwrap_err();
        assert!(error.to_string().contains(words), "{words:?} is not in {error}");
        drop(importer);
        served.join().unwrap();
        side.demand_empty();
    }
    let (ticket, served) = impostor("stranger", real, vec![(101, vec![9; 16])]);
    let error = Importer::connect(Side::new(1).driver(), &ticket).unwrap_err();
    assert!(matches!(error, Error::Stale { .. }), "{error}");
    served.join().unwrap();
    stage.end();
}
