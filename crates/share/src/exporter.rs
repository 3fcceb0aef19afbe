//! The exporter: offers memory of a pool, and hands its handles to processes of the same user that come
//! with a ticket. What is answered, the desk knows; here are the sockets.

use crate::answer::{Answer, HandleRecord, Reason};
use crate::desk::{Content, Desk, Letter, Terms};
use crate::door::{Door, Name};
use crate::error::{Error, Result};
use crate::offer::Offer;
use crate::packet::{Packet, UNASKED};
use crate::peer::Peer;
use crate::request::Request;
use crate::round::Together;
use crate::service::{Bell, Service};
use crate::socket::{Received, await_any, receive, send};
use crate::ticket::{Ticket, VERSION};
use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stitchpool_chunks::PhysicalHandle;
use stitchpool_driver::{DeviceId, Rights, Uuid};
use stitchpool_pool::{Export, ExportedPart, Part, Pool};

/// Offers memory of a pool to other processes of the same user.
///
/// It answers when it is told to ([`answer`](Self::answer)), or on a thread of its own if it is asked for one
/// ([`serve`](Self::serve)). It keeps its pool alive. Dropped, it recalls what is offered and waits a second
/// for those who have imported it; what they still hold then is left standing for ever, because they may be
/// using it: [recall](Self::recall) first.
#[derive(Debug)]
pub struct Exporter {
    house: Arc<House>,
    service: Option<Service>,
}

/// A process that has come to import.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guest {
    /// The process, as this one sees it; 0 if it does not.
    pub pid: i32,
    /// How many imports it has.
    pub imports: u32,
    /// How many bytes these map.
    pub bytes: u64,
}

/// What the exporter and its offers share.
#[derive(Debug)]
pub(crate) struct House {
    pool: Pool,
    door: Door,
    uuids: BTreeMap<DeviceId, Uuid>,
    exporter: [u8; 16],
    bell: Arc<Bell>,
    front: Mutex<Front>,
}

#[derive(Debug)]
struct Front {
    desk: Desk,
    visitors: BTreeMap<u64, Visitor>,
    next_visitor: u64,
}

/// A connection.
#[derive(Debug)]
struct Visitor {
    socket: Arc<OwnedFd>,
    peer: Peer,
    /// Whether it has said which version it speaks, and it is ours.
    has_greeted: bool,
    /// The number of its last question.
    asked: u32,
}

/// So many processes can be connected at a time.
const VISITORS_MAX: usize = 256;
/// So many are let in at one look.
const LET_IN_MAX: usize = 16;
/// Together no more than that: each of them is a visitor.
const RANKS_MAX: u32 = VISITORS_MAX as u32;
/// How long a dropped exporter waits for those who hold its memory.
const FAREWELL: Duration = Duration::from_secs(1);
/// While it waits for something that another thread may be told, it looks that often.
const LOOK: Duration = Duration::from_millis(20);
/// A thread that serves looks up at least that often.
const ROUND: Duration = Duration::from_secs(3600);
/// How long a thread rests after the system has refused to let it look.
const REST: Duration = Duration::from_millis(100);

impl Exporter {
    /// Listens under a name of its own, which is no file and ends with the process. Processes in another
    /// network namespace (most containers) do not find it: see [`at_path`](Self::at_path).
    ///
    /// # Errors
    /// [`Error::Socket`], or the driver's.
    pub fn new(pool: &Pool) -> Result<Self> {
        let exporter = fresh_identity();
        let hex: String = exporter.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::open(pool, exporter, Name::Abstract(format!("stitchpool-{hex}").into_bytes()))
    }

    /// Listens at a path, which only its user may connect to; the file goes with the exporter.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn at_path(pool: &Pool, path: &Path) -> Result<Self> {
        Self::open(pool, fresh_identity(), Name::Path(path.to_path_buf()))
    }

    fn open(pool: &Pool, exporter: [u8; 16], name: Name) -> Result<Self> {
        let uuids = pool.device_infos()?.into_iter().map(|info| (info.id, info.uuid)).collect();
        let front = Front { desk: Desk::new(exporter), visitors: BTreeMap::new(), next_visitor: 1 };
        let (door, bell) = (Door::open(name)?, Bell::new()?);
        let house = House { pool: pool.clone(), door, uuids, exporter, bell, front: Mutex::new(front) };
        Ok(Self { house: Arc::new(house), service: None })
    }

    /// Offers parts of live blocks, whole handles around them included, with at most these rights. The same
    /// parts with the same rights are one offer, whose ticket is the same.
    ///
    /// # Errors
    /// As [`Pool::export`]; [`Error::NotVisible`] for memory of the host, which has no identity.
    pub fn offer(&self, parts: &[Part], rights: Rights) -> Result<Offer> {
        self.offer_on(Terms { parts: parts.to_vec(), rights, together: None })
    }

    /// The same to a group of processes that import it all or not at all. Where one of them cannot, or does not
    /// come in time, every one of them is told so and lets go; they may try again.
    ///
    /// # Errors
    /// As [`offer`](Self::offer); [`Error::Argument`] for a group of none, or of too many.
    pub fn offer_together(&self, parts: &[Part], rights: Rights, together: Together) -> Result<Offer> {
        let Together { ranks, within } = together;
        if !(1..=RANKS_MAX).contains(&ranks) || within.is_zero() {
            let why = format!("a group has 1 to {RANKS_MAX} processes and some time, not {ranks} and {within:?}");
            return Err(Error::Argument(why));
        }
        self.offer_on(Terms { parts: parts.to_vec(), rights, together: Some(together) })
    }

    fn offer_on(&self, terms: Terms) -> Result<Offer> {
        if terms.rights == Rights::None {
            return Err(Error::Argument("memory is offered for reading, or for reading and writing".into()));
        }
        let house = &self.house;
        let mut front = house.front.lock();
        let (generation, export) = match front.desk.again(&terms) {
            Some(known) => known,
            None => {
                let export = Arc::new(house.pool.export(&terms.parts)?);
                house.demand_identities(&export)?;
                (front.desk.offer(terms.clone(), export.clone()), export)
            }
        };
        let ticket =
            house.ticket(generation, &export, &terms).inspect_err(|_| drop(front.desk.end_offer(generation)))?;
        Ok(Offer { house: house.clone(), ticket })
    }

    /// Answers those who come until something was answered, for `wait` at most, and says how many requests that
    /// were.
    ///
    /// # Errors
    /// [`Error::Socket`]. A visitor that misbehaves is sent away and is no error.
    pub fn answer(&self, wait: Duration) -> Result<u64> {
        self.house.answer(wait)
    }

    /// Answers on a thread of its own from now on, until it is dropped. A second call changes nothing.
    ///
    /// # Errors
    /// [`Error::Socket`] where the system gives no thread.
    pub fn serve(&mut self) -> Result<()> {
        if self.service.is_none() {
            let house = self.house.clone();
            let once = move || {
                if let Err(error) = house.answer(ROUND) {
                    tracing::warn!(%error, "other processes are not answered");
                    std::thread::sleep(REST);
                }
            };
            self.service = Some(Service::start("stitchpool-share", self.house.bell.clone(), once)?);
        }
        Ok(())
    }

    /// Takes an offer back: from now on its ticket is stale, those who have imported the memory are asked to let it
    /// go, and when they have, its blocks are held no longer. Answers others meanwhile.
    ///
    /// # Errors
    /// [`Error::StillHeld`] after `within`, with the processes that hold it; it is offered again then, but who has
    /// let go has. Or [`Error::Socket`].
    pub fn recall(&self, offer: &Offer, within: Duration) -> Result<()> {
        let (house, generation) = (&self.house, offer.ticket.generation);
        let until = Instant::now() + within;
        house.deliver(|desk| desk.recall(generation));
        loop {
            let holders = house.holders(generation);
            if holders.is_empty() {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                house.deliver(|desk| {
                    desk.take_recall_back(generation);
                    Vec::new()
                });
                let limit_ms = within.as_millis() as u64;
                return Err(Error::StillHeld { generation, holders, limit_ms });
            }
            house.answer(left.min(LOOK))?;
        }
    }

    /// The processes that are connected.
    #[must_use]
    pub fn guests(&self) -> Vec<Guest> {
        let front = self.house.front.lock();
        let guest = |(&id, visitor): (&u64, &Visitor)| {
            let (imports, bytes) = front.desk.imports_of(id);
            Guest { pid: visitor.peer.pid, imports, bytes }
        };
        front.visitors.iter().map(guest).collect()
    }

    /// The pool whose memory it offers.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.house.pool
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.service = None;
        let house = &self.house;
        let until = Instant::now() + FAREWELL;
        let generations = house.front.lock().desk.generations();
        generations.iter().for_each(|&generation| house.deliver(|desk| desk.recall(generation)));
        let held = || generations.iter().any(|&generation| !house.holders(generation).is_empty());
        while held() && Instant::now() < until && house.answer_once(LOOK).is_ok() {}
        let mut front = house.front.lock();
        let left = front.desk.take_exports();
        front.visitors.clear();
        drop(front);
        if !left.is_empty() {
            tracing::warn!(exports = left.len(), "other processes hold memory of an exporter that is gone: it stays");
            // They may be using it: a leak is better than a fault.
            std::mem::forget(left);
        }
    }
}

impl House {
    fn ticket(&self, generation: u64, export: &Export, terms: &Terms) -> Result<Ticket> {
        let none = || Error::Argument("an offer has a part with a handle behind it".into());
        let handle = export.handles().first().ok_or_else(none)?;
        let ExportedPart { bytes: part_bytes, offset_bytes, .. } = *export.parts().first().ok_or_else(none)?;
        Ok(Ticket {
            kind: export.kind(),
            rights: terms.rights,
            exporter: self.exporter,
            uuid: self.identity(handle)?,
            generation,
            bytes: export.bytes(),
            offset_bytes,
            part_bytes,
            handles: export.handles().len() as u32,
            parts: export.parts().len() as u32,
            ranks: terms.together.map_or(0, |together| together.ranks),
            pid: std::process::id(),
            name: self.door.name().clone(),
        })
    }

    fn demand_identities(&self, export: &Export) -> Result<()> {
        export.handles().iter().try_for_each(|handle| self.identity(handle).map(drop))
    }

    fn identity(&self, handle: &PhysicalHandle) -> Result<Uuid> {
        self.uuids.get(&handle.device()).copied().ok_or_else(|| {
            let device = handle.device();
            Error::Argument(format!("memory of {device} cannot be shared: it has no identity that others know"))
        })
    }

    /// The processes that hold a generation, for people; empty: none does.
    fn holders(&self, generation: u64) -> String {
        let front = self.front.lock();
        let named = front.desk.holders(generation).map(|(visitor, _)| {
            let pid = front.visitors.get(&visitor).map_or(0, |visitor| visitor.peer.pid);
            format!("process {pid}")
        });
        named.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn end_offer(&self, generation: u64) {
        self.deliver(|desk| desk.end_offer(generation));
    }

    /// Changes the desk, and sends what follows from it.
    fn deliver(&self, change: impl FnOnce(&mut Desk) -> Vec<Letter>) {
        let mut front = self.front.lock();
        let letters = change(&mut front.desk);
        self.send_all(&mut front, letters);
    }

    fn answer(&self, wait: Duration) -> Result<u64> {
        let until = Instant::now() + wait;
        loop {
            let answered = self.answer_once(until.saturating_duration_since(Instant::now()))?;
            if answered > 0 || Instant::now() >= until || self.bell.has_rung() {
                return Ok(answered);
            }
        }
    }

    /// Looks once, for `wait` at most.
    fn answer_once(&self, wait: Duration) -> Result<u64> {
        let (watched, next_end) = {
            let front = self.front.lock();
            let sockets = front.visitors.iter().map(|(&id, visitor)| (id, visitor.socket.clone()));
            (sockets.collect::<Vec<_>>(), front.desk.next_end())
        };
        let until = Instant::now() + wait;
        let fixed = [self.door.socket().as_fd(), self.bell.event()];
        let all: Vec<BorrowedFd<'_>> =
            fixed.into_iter().chain(watched.iter().map(|(_, socket)| socket.as_fd())).collect();
        let ready = await_any(&all, next_end.map_or(until, |end| end.min(until))).map_err(|error| Error::Socket {
            door: self.door.name().title(),
            what: "be watched",
            why: error.to_string(),
        })?;
        self.deliver(|desk| desk.tick(Instant::now()));
        if ready[0] {
            self.let_in();
        }
        let readable = watched.iter().zip(&ready[2..]).filter(|(_, ready)| **ready).map(|((id, _), _)| *id);
        Ok(readable.map(|id| u64::from(self.hear(id))).sum())
    }

    /// Lets in who has come, of the same user and as long as there is room.
    fn let_in(&self) {
        for _ in 0..LET_IN_MAX {
            let socket = match self.door.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => return,
                Err(error) => {
                    // It stays in the queue; without a rest a thread would turn in circles.
                    tracing::warn!(%error, "a process could not be let in");
                    std::thread::sleep(LOOK);
                    return;
                }
            };
            let mut front = self.front.lock();
            match admit(&socket, front.visitors.len()) {
                Ok(peer) => {
                    let id = front.next_visitor;
                    front.next_visitor += 1;
                    front
                        .visitors
                        .insert(id, Visitor { socket: Arc::new(socket), peer, has_greeted: false, asked: UNASKED });
                }
                Err(why) => {
                    tracing::warn!(why, "a process was not let in");
                    // It sees the end of the connection if this does not reach it.
                    let _ = send(&socket, &Answer::Refused { reason: Reason::Other, why }.packet());
                }
            }
        }
    }

    /// Hears one message of a visitor, and answers it. False: there was none.
    fn hear(&self, id: u64) -> bool {
        let mut front = self.front.lock();
        let Some(visitor) = front.visitors.get_mut(&id) else { return false };
        let pid = visitor.peer.pid;
        let heard = match receive(&visitor.socket) {
            Ok(Received::Nothing) => return false,
            Ok(Received::End) => Err(None),
            Ok(Received::Garbage(why)) => Err(Some(why)),
            Ok(Received::Packet(packet)) => visitor.admit(&packet).map_err(Some),
            Err(error) => Err(Some(error.to_string())),
        };
        match heard {
            Ok(request) => {
                let letters = front.desk.hear(id, pid, request, Instant::now());
                self.send_all(&mut front, letters);
                true
            }
            Err(why) => {
                if let Some(why) = why {
                    tracing::warn!(pid, why, "a message that cannot be: its sender is sent away");
                    let _ = send(&visitor.socket, &Answer::Refused { reason: Reason::Other, why }.packet());
                }
                self.send_away(&mut front, id);
                false
            }
        }
    }

    fn send_away(&self, front: &mut Front, id: u64) {
        let Some(visitor) = front.visitors.remove(&id) else { return };
        let letters = front.desk.gone(id, visitor.peer.pid);
        self.send_all(front, letters);
    }

    /// Sends letters. Who does not take one has let its socket fill up, or is gone: it is sent away.
    fn send_all(&self, front: &mut Front, letters: Vec<Letter>) {
        let mut deaf = Vec::new();
        for Letter { to, content } in letters {
            let Some(visitor) = front.visitors.get(&to) else { continue };
            let serial = if content.is_unasked() { UNASKED } else { visitor.asked };
            if let Err(error) = send(&visitor.socket, &self.packet(content).numbered(serial)) {
                tracing::warn!(pid = visitor.peer.pid, %error, "a process takes no answer");
                deaf.push(to);
            }
        }
        // Each one that goes is one less, so this ends.
        deaf.into_iter().for_each(|id| self.send_away(front, id));
    }

    fn packet(&self, content: Content) -> Packet {
        let handles = match content {
            Content::Answer(answer) => return answer.packet(),
            Content::Handles(handles) => handles,
        };
        let record = |handle: &Arc<PhysicalHandle>| {
            let (bytes, uuid) = (handle.bytes(), self.identity(handle)?);
            Ok(HandleRecord { bytes, uuid, shareable: handle.export()? })
        };
        match handles.iter().map(record).collect::<Result<Vec<_>>>() {
            Ok(records) => Answer::Handles(records).packet(),
            Err(error) => Answer::Refused { reason: Reason::Other, why: error.to_string() }.packet(),
        }
    }
}

impl Visitor {
    /// The first request must be a greeting; one in another version is answered, and greets nobody.
    fn admit(&mut self, packet: &Packet) -> std::result::Result<Request, String> {
        let request = Request::read(packet)?;
        if packet.serial() != UNASKED {
            self.asked = packet.serial();
        }
        if let Request::Hello { version } = request {
            self.has_greeted = version == VERSION;
            return Ok(request);
        }
        if self.has_greeted { Ok(request) } else { Err("it came before a greeting in this version".into()) }
    }
}

/// Who has connected, if it may be let in.
fn admit(socket: &OwnedFd, present: usize) -> std::result::Result<Peer, String> {
    let peer = Peer::of(socket).map_err(|error| format!("the system does not say who has come: {error}"))?;
    peer.demand_same_user().map_err(|error| error.to_string())?;
    if present >= VISITORS_MAX {
        return Err(format!("{VISITORS_MAX} processes are connected, the limit: end some"));
    }
    Ok(peer)
}

/// Bytes that no other exporter has, nor had.
fn fresh_identity() -> [u8; 16] {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // Each state has keys of its own from the system.
    let half = || RandomState::new().hash_one((std::process::id(), now)).to_le_bytes();
    let (mut identity, halves) = ([0; 16], [half(), half()]);
    identity[..8].copy_from_slice(&halves[0]);
    identity[8..].copy_from_slice(&halves[1]);
    identity
}
