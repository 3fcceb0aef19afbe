//! The importer: brings tickets to their exporter, maps what it gets, and hears when that must go.

use crate::answer::{Answer, HandleRecord, Layout};
use crate::error::{Error, Result};
use crate::import::{Import, Mapped, Shared, highest};
use crate::link::Link;
use crate::request::Request;
use crate::service::Service;
use crate::ticket::{Ticket, spelled};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use stitchpool_chunks::{Mapping, Origin, PhysicalHandle, Reservation, map_run};
use stitchpool_driver::{DeviceId, DeviceInfo, Driver, Grant, HandleSpec, Rights, Uuid};
use stitchpool_pool::ExportedPart;

/// Imports memory that one exporter offers.
///
/// The exporter's end and its recalls are heard when it is told to look ([`poll`](Self::poll)), or on a thread
/// of its own if it is asked for one ([`watch`](Self::watch)). Imports may outlive it.
#[derive(Debug)]
pub struct Importer {
    household: Arc<Household>,
    service: Mutex<Option<Service>>,
}

/// What an importer and its thread share.
#[derive(Debug)]
struct Household {
    origin: Arc<Origin>,
    link: Arc<Link>,
    devices: Vec<DeviceInfo>,
    /// Imports that may live. Held while one is made, so that the same ticket is not imported twice at once.
    imports: Mutex<Vec<Weak<Shared>>>,
}

/// What word from the exporter came to.
struct Polled {
    /// How many imports went.
    gone: usize,
    /// Whether the exporter is gone.
    lost: bool,
}

/// An exporter that was asked may take so long to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The word that ends an import together may come so long after its time is over.
const GRACE: Duration = Duration::from_secs(2);
/// No import has more handles: so many of 2 MiB are two TiB.
const HANDLES_MAX: u32 = 1 << 20;
/// Nor more parts.
const PARTS_MAX: u32 = 1 << 20;
/// A thread that watches looks up at least that often.
const ROUND: Duration = Duration::from_secs(3600);
/// How long a thread rests after the system has refused to let it look.
const REST: Duration = Duration::from_millis(100);

impl Importer {
    /// Connects to the exporter of a ticket; this importer takes other tickets of the same exporter too. The memory
    /// is mapped by `driver`.
    ///
    /// # Errors
    /// [`Error::Socket`], [`Error::ForeignUser`], [`Error::Stale`], [`Error::Refused`], [`Error::Silent`] after
    /// ten seconds, [`Error::Lost`], or the driver's.
    pub fn connect(driver: Arc<dyn Driver>, ticket: &Ticket) -> Result<Self> {
        Self::connect_within(driver, ticket, PATIENCE)
    }

    /// The same, where no answer may take longer than `patience`, now and later.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_within(driver: Arc<dyn Driver>, ticket: &Ticket, patience: Duration) -> Result<Self> {
        let devices = driver.devices()?;
        let link = Arc::new(Link::open(ticket, patience)?);
        let household = Household { origin: Origin::new(driver), link, devices, imports: Mutex::default() };
        Ok(Self { household: Arc::new(household), service: Mutex::default() })
    }

    /// Maps the memory of a ticket at neighbouring addresses and opens it to `grants`. The same ticket with the same
    /// grants again is the same import. An offer to a group is mapped when all of the group have: all or none.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Rights`], [`Error::NotVisible`], [`Error::CalledOff`], [`Error::Argument`] for
    /// no grants, those of [`connect`](Self::connect), or the driver's. Nothing is mapped then.
    pub fn import(&self, ticket: &Ticket, grants: &[Grant]) -> Result<Import> {
        self.household.import(ticket, grants)
    }

    /// The device of this process that a ticket's memory begins on.
    ///
    /// # Errors
    /// [`Error::NotVisible`].
    pub fn device_of(&self, ticket: &Ticket) -> Result<DeviceId> {
        self.household.visible(ticket.uuid)
    }

    /// Waits for word from the exporter, for `wait` at most, and lets go what it has recalled, or all if it is
    /// gone. Says how many imports went.
    ///
    /// # Errors
    /// [`Error::Message`], or [`Error::Socket`].
    pub fn poll(&self, wait: Duration) -> Result<usize> {
        Ok(self.household.poll(Instant::now() + wait)?.gone)
    }

    /// Does so on a thread of its own from now on, until the importer is dropped. A second call changes nothing.
    ///
    /// # Errors
    /// [`Error::Socket`] where the system gives no thread.
    pub fn watch(&self) -> Result<()> {
        let mut service = self.service.lock();
        if service.is_none() {
            let household = self.household.clone();
            let once = move || match household.poll(Instant::now() + ROUND) {
                Ok(polled) if polled.lost => household.link.bell.ring(),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "an exporter is not heard");
                    std::thread::sleep(REST);
                }
            };
            *service = Some(Service::start("stitchpool-watch", self.household.link.bell.clone(), once)?);
        }
        Ok(())
    }

    /// The exporting process, as this one sees it; 0 if it does not.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.household.link.pid()
    }
}

impl Household {
    fn import(&self, ticket: &Ticket, grants: &[Grant]) -> Result<Import> {
        let generation = ticket.generation;
        if ticket.exporter != self.link.exporter {
            let why = "it is another exporter's: connect an importer with this ticket".to_owned();
            return Err(Error::Stale { generation, why });
        }
        let asked = highest(grants);
        if asked == Rights::None {
            return Err(Error::Argument("name a device that may read the memory, or read and write it".into()));
        }
        if asked > ticket.rights {
            return Err(Error::Rights { asked, granted: ticket.rights });
        }
        let mut imports = self.imports.lock();
        imports.retain(|import| import.strong_count() > 0);
        let known = imports.iter().filter_map(Weak::upgrade);
        let mut same = known.filter(|known| known.ticket == *ticket && known.grants == grants);
        if let Some(shared) = same.find(|known| known.hold().is_ok()) {
            return Ok(Import { shared });
        }
        let mapped = self.open(ticket, asked, grants)?;
        let import = Import::new(ticket.clone(), grants.to_vec(), mapped);
        imports.push(Arc::downgrade(&import.shared));
        Ok(import)
    }

    /// Opens a generation, maps it, and where a group does so together waits for the others.
    fn open(&self, ticket: &Ticket, rights: Rights, grants: &[Grant]) -> Result<Mapped> {
        let generation = ticket.generation;
        let layout = match self.link.ask(&Request::Open { generation, rights }, "open the memory")? {
            Answer::Layout(layout) => layout,
            other => return Err(self.link.refusal(other, generation)),
        };
        let mapped = self.map(ticket, layout, grants);
        let agreed = if layout.within_ms > 0 { self.agree(generation, layout, mapped) } else { mapped };
        // What was mapped has said so itself when it went.
        agreed.map_err(|(error, said)| {
            if !said && let Err(error) = self.link.say(&Request::Leave { generation }) {
                tracing::debug!(%error, "the exporter does not hear that an import failed");
            }
            error
        })
    }

    /// Tells the exporter how it went, and goes by what it says of the whole group. A refusal comes with whether
    /// the exporter knows of it.
    fn agree(
        &self,
        generation: u64,
        layout: Layout,
        mapped: std::result::Result<Mapped, (Error, bool)>,
    ) -> std::result::Result<Mapped, (Error, bool)> {
        let refusal = mapped.as_ref().err().map(|(error, _)| error.to_string());
        let limit = Duration::from_millis(layout.within_ms).saturating_add(GRACE);
        let answer = self.link.ask_within(&Request::Vote { generation, refusal }, "end the import together", limit);
        // Its own trouble says more than what the exporter makes of it.
        let mapped = mapped?;
        let why = match answer {
            Ok(Answer::Verdict { refusal: None, .. }) => return Ok(mapped),
            Ok(Answer::Verdict { refusal: Some(why), .. }) => Error::CalledOff { why },
            Ok(other) => self.link.refusal(other, generation),
            Err(error) => error,
        };
        drop(mapped);
        Err((why, true))
    }

    /// Fetches and maps what a generation is made of. A refusal comes with whether the exporter knows of it.
    fn map(&self, ticket: &Ticket, layout: Layout, grants: &[Grant]) -> std::result::Result<Mapped, (Error, bool)> {
        let mapped = || {
            let Ticket { bytes, handles, parts, .. } = *ticket;
            if (layout.bytes, layout.handles, layout.parts) != (bytes, handles, parts) {
                return Err(self.message("what it offers is not what the ticket says".into()));
            }
            bounded("handles", layout.handles, HANDLES_MAX)?;
            bounded("parts", layout.parts, PARTS_MAX)?;
            let handles = self.handles(ticket)?;
            let parts = self.parts(ticket)?;
            let run = self.stand(bytes, handles, grants)?;
            Ok((run, parts))
        };
        let (run, parts) = mapped().map_err(|error| (error, false))?;
        let users = grants.iter().map(|grant| grant.device).filter(|device| !device.is_host()).collect();
        let at = run.first().map(Mapping::at).unwrap_or_default();
        let (generation, bytes) = (ticket.generation, layout.bytes);
        Ok(Mapped { origin: self.origin.clone(), link: self.link.clone(), generation, run, at, bytes, parts, users })
    }

    fn stand(&self, bytes: u64, handles: Vec<Arc<PhysicalHandle>>, grants: &[Grant]) -> Result<Vec<Mapping>> {
        let vacancy = Reservation::reserve(&self.origin, bytes, 0)?;
        let (run, _) = map_run(vacancy, handles, grants).map_err(|failure| failure.error)?;
        Ok(run)
    }

    /// All handles of a ticket, in order.
    fn handles(&self, ticket: &Ticket) -> Result<Vec<Arc<PhysicalHandle>>> {
        let generation = ticket.generation;
        let mut handles: Vec<Arc<PhysicalHandle>> = Vec::new();
        // Each answer brings some, so this ends.
        while handles.len() < ticket.handles as usize {
            let request = Request::Handles { generation, first: handles.len() as u32 };
            let records = match self.link.ask(&request, "send handles")? {
                Answer::Handles(records) if !records.is_empty() => records,
                Answer::Handles(_) => return Err(self.message("it sends fewer handles than it has offered".into())),
                other => return Err(self.link.refusal(other, generation)),
            };
            for HandleRecord { bytes, uuid, shareable } in records {
                let spec = HandleSpec { device: self.visible(uuid)?, bytes, kind: shareable.kind() };
                handles.push(PhysicalHandle::import(&self.origin, &shareable, spec)?);
            }
        }
        let bytes = handles.iter().map(|handle| handle.bytes()).fold(0, u64::saturating_add);
        if bytes != ticket.bytes || handles.len() != ticket.handles as usize {
            return Err(self.message(format!("its handles have {bytes} bytes, and the ticket {}", ticket.bytes)));
        }
        Ok(handles)
    }

    /// All parts of a ticket, in order.
    fn parts(&self, ticket: &Ticket) -> Result<Vec<ExportedPart>> {
        let generation = ticket.generation;
        let mut parts: Vec<ExportedPart> = Vec::new();
        while parts.len() < ticket.parts as usize {
            let request = Request::Parts { generation, first: parts.len() as u32 };
            match self.link.ask(&request, "send parts")? {
                Answer::Parts(more) if !more.is_empty() => parts.extend(more),
                Answer::Parts(_) => return Err(self.message("it sends fewer parts than it has offered".into())),
                other => return Err(self.link.refusal(other, generation)),
            }
        }
        let inside = |part: &ExportedPart| {
            part.offset_bytes.checked_add(part.bytes).is_some_and(|end| end <= ticket.bytes)
                && part.address.checked_add(part.bytes).is_some()
        };
        match parts.iter().find(|part| !inside(part)) {
            None if parts.len() == ticket.parts as usize => Ok(parts),
            None => Err(self.message("it sends more parts than it has offered".into())),
            Some(part) => Err(self.message(format!("{part:?} lies outside of its {} bytes", ticket.bytes))),
        }
    }

    /// The device of this process with this identity.
    fn visible(&self, uuid: Uuid) -> Result<DeviceId> {
        let found = self.devices.iter().find(|device| device.uuid == uuid);
        found.map(|device| device.id).ok_or_else(|| {
            let all: Vec<String> = self.devices.iter().map(|device| spelled(device.uuid)).collect();
            Error::NotVisible { uuid: spelled(uuid), visible: all.join(", ") }
        })
    }

    fn poll(&self, until: Instant) -> Result<Polled> {
        let news = self.link.news(until)?;
        let pid = self.link.pid();
        let all: Vec<Arc<Shared>> = self.imports.lock().iter().filter_map(Weak::upgrade).collect();
        let here = all.iter().filter(|import| import.hold().is_ok());
        let mut gone = 0;
        for import in here {
            let generation = import.ticket.generation;
            let why = match &news.lost {
                Some(lost) => lost.clone(),
                None if news.recalled.contains(&generation) => Error::Recalled { pid, generation },
                None => continue,
            };
            import.leave(why);
            gone += 1;
        }
        Ok(Polled { gone, lost: news.lost.is_some() })
    }

    fn message(&self, why: String) -> Error {
        Error::Message { pid: self.link.pid(), why }
    }
}

fn bounded(what: &'static str, count: u32, limit: u32) -> Result<()> {
    if count <= limit {
        return Ok(());
    }
    let remedy = "offer it in several parts, or build the exporting pool with larger handles";
    Err(Error::TooMany { what, count: u64::from(count), limit: u64::from(limit), remedy })
}
