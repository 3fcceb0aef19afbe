//! The exporter: offers memory of a pool, and hands its handles to processes of the same user that come
//! with a ticket. What is answered, the desk knows; here are the sockets.

use crate::desk::Terms;
use crate::door::Name;
use crate::error::{Error, Result};
use crate::house::{Guest, House, VISITORS_MAX};
use crate::offer::Offer;
use crate::round::Together;
use crate::service::Service;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stitchpool_driver::Rights;
use stitchpool_pool::{Part, Pool};

/// Offers memory of a pool to other processes of the same user.
///
/// It answers when it is told to ([`answer`](Self::answer)), or on a thread of its own if it is asked for one
/// ([`serve`](Self::serve)). It keeps its pool alive. Dropped, it recalls what is offered and waits a second
/// for those who have imported it; what they still hold then is left standing for ever, because they may be
/// using it: [recall](Self::recall) first.
#[derive(Debug)]
pub struct Exporter {
    house: Arc<House>,
    service: Mutex<Option<Service>>,
}

/// Together no more than that: each of them is a visitor.
const RANKS_MAX: u32 = VISITORS_MAX as u32;
/// How long a dropped exporter waits for those who hold its memory.
const FAREWELL: Duration = Duration::from_secs(1);
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
        Self::open(pool, |hex| Name::Abstract(format!("stitchpool-{hex}").into_bytes()))
    }

    /// Listens at a path, which only its user may connect to; the file goes with the exporter.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn at_path(pool: &Pool, path: &Path) -> Result<Self> {
        Self::open(pool, |_| Name::Path(path.to_path_buf()))
    }

    fn open(pool: &Pool, name: impl FnOnce(&str) -> Name) -> Result<Self> {
        Ok(Self { house: Arc::new(House::open(pool, name)?), service: Mutex::default() })
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
        Ok(Offer { ticket: self.house.offer(terms)?, house: self.house.clone() })
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
    pub fn serve(&self) -> Result<()> {
        self.house.home().demand()?;
        let mut service = self.service.lock();
        if service.is_none() {
            let house = self.house.clone();
            let once = move || {
                if let Err(error) = house.answer(ROUND) {
                    tracing::warn!(%error, "other processes are not answered");
                    std::thread::sleep(REST);
                }
            };
            *service = Some(Service::start("stitchpool-share", self.house.bell().clone(), once)?);
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
        self.house.recall(offer.ticket.generation, within)
    }

    /// The processes that are connected.
    #[must_use]
    pub fn guests(&self) -> Vec<Guest> {
        self.house.guests()
    }

    /// The pool whose memory it offers.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.house.pool()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        *self.service.get_mut() = None;
        if self.house.home().is_here() {
            self.house.take_leave(FAREWELL);
        } else {
            // All of it is the parent's, whose threads may have been at any place in it.
            std::mem::forget(self.house.clone());
        }
    }
}
