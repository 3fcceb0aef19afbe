//! The strict ledger: what lives, what is mapped where, who may use it. It changes the system's
//! mappings only after it has found the change to be right, and itself only after the system has obeyed.

use super::ballast::Ballast;
use super::config::HostConfig;
use super::mappings::{Mapping, Mappings};
use super::opened::Opened;
use super::physical::Physicals;
use super::place::Places;
use super::reservations::{Reservations, Shown};
use super::span::Span;
use crate::{Error, ErrorKind, Grant, Link, RawHandle, Result, Rights, Verb};
use rustix::mm::MprotectFlags;

/// The ledger of addresses and memory.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) places: Places,
    pub(super) physicals: Physicals,
    pub(super) reservations: Reservations,
    pub(super) mappings: Mappings,
    ballast: Ballast,
    release_only_on_unreserve: bool,
    ticks: u64,
}

impl Books {
    pub(super) fn open(config: &HostConfig) -> Result<Self> {
        let places = Places::open(config)?;
        let granularity_bytes = places.smallest_granularity_bytes();
        Ok(Self {
            places,
            physicals: Physicals::new(config),
            reservations: Reservations::new(config.address_space_bytes, granularity_bytes),
            mappings: Mappings::default(),
            ballast: Ballast::take().map_err(|error| {
                Error::new(Verb::Open, ErrorKind::OutOfResources, format!("the system has no addresses: {error}"))
            })?,
            release_only_on_unreserve: config.quirks.release_only_on_unreserve,
            ticks: 0,
        })
    }

    /// The next number in the order of mappings made and work queued.
    pub(super) fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    pub(super) fn unreserve(&mut self, span: Span) -> Result<()> {
        let withheld = self.reservations.unreserve(span, &self.ballast)?;
        withheld.into_iter().for_each(|memory| self.physicals.let_go(&mut self.places, memory));
        Ok(())
    }

    pub(super) fn map(&mut self, span: Span, handle: RawHandle) -> Result<()> {
        let handle = self.physicals.get(Verb::Map, handle)?;
        let refused =
            |kind, detail: String| Err(Error::new(Verb::Map, kind, detail).on(handle.spec.device).of(span.bytes));
        if span.bytes != handle.spec.bytes {
            let detail = format!("the handle has {} bytes and is mapped whole or not at all", handle.spec.bytes);
            return refused(ErrorKind::NotSupported, detail);
        }
        let granularity_bytes = self.places.get(Verb::Map, handle.spec.device)?.shape.granularity_bytes;
        if !span.at.is_multiple_of(granularity_bytes) {
            let detail = format!("{:#x} is no multiple of the granularity of {granularity_bytes} bytes", span.at);
            return refused(ErrorKind::InvalidValue, detail);
        }
        let reservation = self.reservations.around(Verb::Map, span)?;
        if let Some((found, _)) = self.mappings.over(span).next() {
            let detail = format!("{} lies over the mapping {}", Shown(span), Shown(found));
            return refused(ErrorKind::InvalidValue, detail);
        }
        let (file, offset) = self.physicals.bytes_of(&self.places, handle.memory);
        // SAFETY: `reservation` holds the span, and `mappings` has nothing there.
        unsafe { span.back(file, offset) }.map_err(|error| exhausted(Verb::Map, span, error))?;
        reservation.mappings += 1;
        self.physicals.hold(handle.memory);
        let made = self.tick();
        let (bytes, memory, opened) = (span.bytes, handle.memory, Opened::default());
        self.mappings.insert(span.at, Mapping { bytes, memory, opened, made, named: 0 });
        Ok(())
    }

    /// Unmaps a run, and says what stood in it.
    pub(super) fn unmap(&mut self, span: Span) -> Result<Vec<(Span, Mapping)>> {
        let reservation = self.reservations.around(Verb::Unmap, span)?;
        self.mappings.demand_run(Verb::Unmap, span)?;
        // SAFETY: `reservation` holds the span.
        self.ballast.spare(|| unsafe { span.clear() }).map_err(|error| exhausted(Verb::Unmap, span, error))?;
        let mut all_gone = Vec::new();
        let mut at = span.at;
        while at < span.end() {
            let gone = self.mappings.remove(at).expect("demand_run found whole mappings without a hole");
            all_gone.push((Span { at, bytes: gone.bytes }, gone));
            at += gone.bytes;
            reservation.mappings -= 1;
            // Withheld memory is named by the reservation in place of the mapping, once.
            if !(self.release_only_on_unreserve && reservation.withheld.insert(gone.memory)) {
                self.physicals.let_go(&mut self.places, gone.memory);
            }
        }
        Ok(all_gone)
    }

    pub(super) fn set_rights(&mut self, span: Span, grants: &[Grant]) -> Result<()> {
        self.reservations.around(Verb::SetRights, span)?;
        self.mappings.demand_run(Verb::SetRights, span)?;
        let grants = self.grants_by_index(span, grants)?;
        for (found, mapping) in self.mappings.over(span) {
            self.demand_reach(found, mapping, &grants)?;
        }
        let after = |before: Opened| grants.iter().fold(before, |opened, &(index, rights)| opened.with(index, rights));
        if let Err(error) = self.protect(span, after) {
            // A part may be changed already. What stood before needs no more pieces than now.
            if let Err(error) = self.ballast.spare(|| self.protect(span, |before| before)) {
                tracing::error!(at = span.at, bytes = span.bytes, %error, "rights could not be put back");
            }
            return Err(exhausted(Verb::SetRights, span, error));
        }
        self.mappings.each_over(span, |mapping| mapping.opened = after(mapping.opened));
        Ok(())
    }

    fn grants_by_index(&self, span: Span, grants: &[Grant]) -> Result<Vec<(usize, Rights)>> {
        let refused = |detail: String| Err(Error::new(Verb::SetRights, ErrorKind::InvalidValue, detail).of(span.bytes));
        if grants.is_empty() {
            return refused("no device is named".to_owned());
        }
        let mut seen = 0_u64;
        let mut all = Vec::with_capacity(grants.len());
        for grant in grants {
            let index = self.places.index(Verb::SetRights, grant.device)?;
            if seen & (1 << index) != 0 {
                return refused(format!("{} is named twice", grant.device));
            }
            seen |= 1 << index;
            all.push((index, grant.rights));
        }
        Ok(all)
    }

    fn demand_reach(&self, span: Span, mapping: &Mapping, grants: &[(usize, Rights)]) -> Result<()> {
        let (place, lies_on) = self.physicals.place_of(mapping.memory);
        let Some(&(index, _)) = grants.iter().find(|&&(index, _)| self.places.link(index, place) == Link::None) else {
            return Ok(());
        };
        let device = self.places.at(index).device;
        let detail = format!("it has no link to {lies_on}, where the memory behind {} lies", Shown(span));
        Err(Error::new(Verb::SetRights, ErrorKind::Unreachable, detail).on(device).of(span.bytes))
    }

    /// Gives this process what `after` makes of each mapping's rights: one call a run of equals.
    fn protect(&self, span: Span, after: impl Fn(Opened) -> Opened) -> rustix::io::Result<()> {
        let mut pending: Option<(Span, MprotectFlags)> = None;
        let all = self.mappings.over(span).map(|(found, mapping)| (found, after(mapping.opened).protection()));
        for (found, flags) in all {
            match &mut pending {
                Some((run, same)) if *same == flags => run.bytes += found.bytes,
                _ => {
                    if let Some((run, flags)) = pending.replace((found, flags)) {
                        // SAFETY: `run` joins neighbours that `mappings` holds.
                        unsafe { run.protect(flags)? };
                    }
                }
            }
        }
        match pending {
            // SAFETY: as above.
            Some((run, flags)) => unsafe { run.protect(flags) },
            None => Ok(()),
        }
    }
}

fn exhausted(verb: Verb, span: Span, error: rustix::io::Errno) -> Error {
    let detail = format!(
        "the system refused to change {}: {error}; a process may hold vm.max_map_count pieces of memory \
         (65530 as a rule): raise it, or use larger handles",
        Shown(span)
    );
    Error::new(verb, ErrorKind::OutOfResources, detail).of(span.bytes)
}
