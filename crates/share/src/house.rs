//! What an exporter and its offers share: the door, who has come in, and the desk that knows the answers. It
//! waits no longer than it is told to.

use crate::answer::{Answer, HandleRecord, Reason};
use crate::desk::{Content, Desk, Letter, Terms};
use crate::door::{Door, Name};
use crate::error::{Error, Result};
use crate::home::Home;
use crate::packet::{Packet, UNASKED};
use crate::peer::Peer;
use crate::request::Request;
use crate::service::Bell;
use crate::socket::{Received, await_any, receive, send};
use crate::ticket::{Ticket, VERSION};
use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stitchpool_chunks::PhysicalHandle;
use stitchpool_driver::{DeviceId, Uuid};
use stitchpool_pool::{Export, ExportedPart, Pool};

/// What the exporter and its offers share.
#[derive(Debug)]
pub(crate) struct House {
    pool: Pool,
    door: Door,
    uuids: BTreeMap<DeviceId, Uuid>,
    exporter: [u8; 16],
    bell: Arc<Bell>,
    home: Home,
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

/// So many processes can be connected at a time.
pub(crate) const VISITORS_MAX: usize = 256;
/// So many are let in at one look.
const LET_IN_MAX: usize = 16;
/// While it waits for something that another thread may be told, it looks that often.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

impl House {
    /// Opens a door under a name that is made of what the exporter is known by.
    pub(crate) fn open(pool: &Pool, name: impl FnOnce(&str) -> Name) -> Result<Self> {
        let exporter = fresh_identity();
        let hex: String = exporter.iter().map(|byte| format!("{byte:02x}")).collect();
        let uuids = pool.device_infos()?.into_iter().map(|info| (info.id, info.uuid)).collect();
        let front = Front { desk: Desk::new(exporter), visitors: BTreeMap::new(), next_visitor: 1 };
        let (door, bell) = (Door::open(name(&hex))?, Bell::new()?);
        Ok(Self { pool: pool.clone(), door, uuids, exporter, bell, home: Home::here(), front: Mutex::new(front) })
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) const fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    pub(crate) const fn home(&self) -> Home {
        self.home
    }

    /// Offers memory on these terms, or once more what is offered on them already.
    pub(crate) fn offer(&self, terms: Terms) -> Result<Ticket> {
        self.home.demand()?;
        let mut front = self.front.lock();
        let (generation, export) = match front.desk.again(&terms) {
            Some(known) => known,
            None => {
                let export = Arc::new(self.pool.export(&terms.parts)?);
                export.handles().iter().try_for_each(|handle| self.identity(handle).map(drop))?;
                (front.desk.offer(terms.clone(), export.clone()), export)
            }
        };
        self.ticket(generation, &export, &terms).inspect_err(|_| drop(front.desk.end_offer(generation)))
    }

    /// Takes a generation back, and waits until nobody holds it.
    pub(crate) fn recall(&self, generation: u64, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        self.deliver(|desk| desk.recall(generation));
        loop {
            let holders = self.holders(generation);
            if holders.is_empty() {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.front.lock().desk.take_recall_back(generation);
                return Err(Error::StillHeld { generation, holders, limit_ms: within.as_millis() as u64 });
            }
            self.answer(left.min(LOOK))?;
        }
    }

    /// Recalls everything, and leaves standing what is held after that.
    pub(crate) fn take_leave(&self, within: Duration) {
        let until = Instant::now() + within;
        let generations = self.front.lock().desk.generations();
        generations.iter().for_each(|&generation| self.deliver(|desk| desk.recall(generation)));
        let held = || generations.iter().any(|&generation| !self.holders(generation).is_empty());
        while held() && Instant::now() < until && self.answer_once(LOOK).is_ok() {}
        let mut front = self.front.lock();
        let left = front.desk.take_exports();
        front.visitors.clear();
        drop(front);
        if !left.is_empty() {
            tracing::warn!(exports = left.len(), "other processes hold memory of an exporter that is gone: it stays");
            // They may be using it: a leak is better than a fault.
            std::mem::forget(left);
        }
    }

    /// Who is connected.
    pub(crate) fn guests(&self) -> Vec<Guest> {
        let front = self.front.lock();
        let guest = |(&id, visitor): (&u64, &Visitor)| {
            let (imports, bytes) = front.desk.imports_of(id);
            Guest { pid: visitor.peer.pid, imports, bytes }
        };
        front.visitors.iter().map(guest).collect()
    }

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
        if self.home.is_here() {
            self.deliver(|desk| desk.end_offer(generation));
        }
    }

    /// Changes the desk, and sends what follows from it.
    fn deliver(&self, change: impl FnOnce(&mut Desk) -> Vec<Letter>) {
        let mut front = self.front.lock();
        let letters = change(&mut front.desk);
        self.send_all(&mut front, letters);
    }

    pub(crate) fn answer(&self, wait: Duration) -> Result<u64> {
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
        self.home.demand()?;
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
