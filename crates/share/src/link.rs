//! An importer's connection to one exporter: a question at a time, each with a limit, and what the exporter
//! says unasked.

use crate::answer::{Answer, Reason};
use crate::error::{Error, Result};
use crate::home::Home;
use crate::packet::{Packet, UNASKED};
use crate::peer::Peer;
use crate::request::Request;
use crate::service::Bell;
use crate::socket::{Received, await_any, await_room, receive, send};
use crate::ticket::{Ticket, VERSION};
use parking_lot::Mutex;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection to the exporter of a ticket.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    pub(crate) home: Home,
    peer: Peer,
    title: String,
    pub(crate) exporter: [u8; 16],
    pub(crate) bell: Arc<Bell>,
    /// How long an answer may take.
    pub(crate) patience: Duration,
    /// Held while something is read: one question at a time.
    turn: Mutex<Turn>,
}

/// What whoever has the turn may change.
#[derive(Debug, Default)]
struct Turn {
    recalled: Vec<u64>,
    /// The number of the last question.
    asked: u32,
}

/// What the exporter has done unasked.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) recalled: Vec<u64>,
    /// The exporter is gone.
    pub(crate) lost: Option<Error>,
}

/// A watcher looks up at least that often while somebody else has the turn.
const GLANCE: Duration = Duration::from_millis(50);

impl Link {
    /// Connects to the exporter of a ticket and greets it.
    pub(crate) fn open(ticket: &Ticket, patience: Duration) -> Result<Self> {
        let socket = ticket.name.connect()?;
        let title = ticket.name.title();
        let peer = Peer::of(&socket).map_err(|error| Error::Socket {
            door: title.clone(),
            what: "tell whose it is",
            why: error.to_string(),
        })?;
        peer.demand_same_user()?;
        let (exporter, bell, turn) = (ticket.exporter, Bell::new()?, Mutex::default());
        let link = Self { socket, home: Home::here(), peer, title, exporter, bell, patience, turn };
        match link.ask(&Request::Hello { version: VERSION }, "answer")? {
            Answer::Welcome { exporter } if exporter == ticket.exporter => Ok(link),
            Answer::Welcome { .. } => {
                let why = "another exporter answers there: the one that gave the ticket is gone".into();
                Err(Error::Stale { generation: ticket.generation, why })
            }
            other => Err(link.refusal(other, ticket.generation)),
        }
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.peer.pid
    }

    /// Asks, and waits for the answer. `what` is what the exporter is to do, in words.
    pub(crate) fn ask(&self, request: &Request, what: &'static str) -> Result<Answer> {
        self.ask_within(request, what, self.patience)
    }

    pub(crate) fn ask_within(&self, request: &Request, what: &'static str, limit: Duration) -> Result<Answer> {
        let until = Instant::now() + limit;
        let silent = || Error::Silent { pid: self.pid(), what, limit_ms: limit.as_millis() as u64 };
        let mut turn = self.turn.try_lock_until(until).ok_or_else(silent)?;
        turn.asked = turn.asked.wrapping_add(1).max(1);
        self.say_until(&request.packet().numbered(turn.asked), until)?;
        loop {
            match self.receive()? {
                Some((_, Answer::Recalled { generation })) => turn.recalled.push(generation),
                // An exporter that sends somebody away answers no question of its number.
                Some((serial, answer)) if serial == turn.asked || serial == UNASKED => return Ok(answer),
                // The answer to a question that was given up.
                Some(_) => {}
                None if Instant::now() >= until => return Err(silent()),
                None => drop(self.await_word(until)?),
            }
        }
    }

    /// Says something that is not answered.
    pub(crate) fn say(&self, request: &Request) -> Result<()> {
        self.say_until(&request.packet(), Instant::now() + self.patience)
    }

    fn say_until(&self, packet: &Packet, until: Instant) -> Result<()> {
        self.home.demand()?;
        loop {
            match send(&self.socket, packet) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) if Instant::now() < until => {
                    await_room(&self.socket, until).map_err(|error| self.broken(error))?;
                }
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(self.lost("its socket is closed")),
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// Waits for word from the exporter, for its end, or for the bell, until `until` at most.
    pub(crate) fn news(&self, until: Instant) -> Result<News> {
        self.home.demand()?;
        let mut news = News::default();
        loop {
            if let Some(mut turn) = self.turn.try_lock_until(until.min(Instant::now() + GLANCE)) {
                news.recalled = std::mem::take(&mut turn.recalled);
                match self.receive() {
                    Ok(Some((_, Answer::Recalled { generation }))) => news.recalled.push(generation),
                    // The answer to a question that was given up.
                    Ok(Some(_)) | Ok(None) => {}
                    Err(error @ Error::Lost { .. }) => news.lost = Some(error),
                    Err(error) => return Err(error),
                }
            }
            let over = Instant::now() >= until || self.bell.has_rung();
            if over || !news.recalled.is_empty() || news.lost.is_some() {
                return Ok(news);
            }
            self.await_word(until)?;
        }
    }

    /// The next answer, if one has come.
    fn receive(&self) -> Result<Option<(u32, Answer)>> {
        let message = |why: String| Error::Message { pid: self.pid(), why };
        match receive(&self.socket).map_err(|error| self.broken(error))? {
            Received::Packet(packet) => {
                let serial = packet.serial();
                Answer::read(packet).map(|answer| Some((serial, answer))).map_err(message)
            }
            Received::Garbage(why) => Err(message(why)),
            Received::End => Err(self.lost("its socket is closed")),
            Received::Nothing if self.is_dead()? => Err(self.lost("the process has ended")),
            Received::Nothing => Ok(None),
        }
    }

    /// A process that was forked off the exporter may keep its sockets open: its own life decides.
    fn is_dead(&self) -> Result<bool> {
        let Some(life) = self.peer.life() else { return Ok(false) };
        let ended = await_any(&[life.as_fd()], Instant::now()).map_err(|error| self.broken(error))?;
        Ok(ended[0])
    }

    fn await_word(&self, until: Instant) -> Result<Vec<bool>> {
        let life = self.peer.life().map(AsFd::as_fd);
        let all: Vec<_> = [self.socket.as_fd(), self.bell.event()].into_iter().chain(life).collect();
        await_any(&all, until).map_err(|error| self.broken(error))
    }

    /// What an answer means that was not asked for.
    pub(crate) fn refusal(&self, answer: Answer, generation: u64) -> Error {
        let pid = self.pid();
        match answer {
            Answer::Refused { reason: Reason::Stale, why } => Error::Stale { generation, why },
            Answer::Refused { why, .. } => Error::Refused { pid, why },
            _ => Error::Message { pid, why: "it answers another question".into() },
        }
    }

    fn lost(&self, why: &'static str) -> Error {
        Error::Lost { pid: self.pid(), why }
    }

    fn broken(&self, error: Errno) -> Error {
        Error::Socket { door: self.title.clone(), what: "be used", why: error.to_string() }
    }
}
