//! A contiguous address range stitched from chunks of any devices. It plans nothing: callers say
//! which device's memory goes where.

mod part;
mod parts;
mod taken;

use crate::{
    Error, Mapping, Origin, PhysicalHandle, Piece, Reservation, Result, Segment, Vacancy, join_all, map_run, open,
};
use part::{Opened, Part};
use parts::Parts;
use std::sync::Arc;
use stitchpool_driver::{Address, Grant, HandleKind, HandleSpec, Link, Rights};
use taken::Taken;

/// What a range is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeSpec {
    /// How many bytes of addresses to reserve: whole granules.
    pub bytes: u64,
    /// The granule: a multiple of the granularity of every device that memory will come from.
    pub granule_bytes: u64,
    /// The largest handle to create: whole granules. Fewer handles cost less to map.
    pub handle_bytes: u64,
    /// How the handles may be exported.
    pub kind: HandleKind,
}

/// A reserved range with memory of chosen devices behind chosen parts of it. Each change is all or
/// nothing and takes whole mappings. Work that uses a part must be done before memory leaves it.
#[derive(Debug)]
pub struct StitchedRange {
    origin: Arc<Origin>,
    spec: RangeSpec,
    parts: Parts,
}

impl StitchedRange {
    /// Reserves the addresses; no memory stands behind them yet.
    ///
    /// # Errors
    /// [`Error::Unaligned`] for sizes that are no whole granules, or the driver's.
    pub fn reserve(origin: &Arc<Origin>, spec: RangeSpec) -> Result<Self> {
        for (what, bytes) in [("range", spec.bytes), ("handle", spec.handle_bytes)] {
            if bytes == 0 || !bytes.is_multiple_of(spec.granule_bytes) {
                return Err(Error::Unaligned { what, bytes, granule_bytes: spec.granule_bytes });
            }
        }
        let vacancy = Reservation::reserve(origin, spec.bytes, spec.granule_bytes)?;
        Ok(Self { origin: origin.clone(), spec, parts: Parts::new(vacancy) })
    }

    /// Its first address.
    #[must_use]
    pub const fn at(&self) -> Address {
        self.parts.at()
    }

    /// How many bytes of addresses it has.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.spec.bytes
    }

    /// How many of them have memory behind them.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.parts.mappings().map(Mapping::bytes).sum()
    }

    /// Where the run of memory that begins at the start of the range ends, in bytes.
    #[must_use]
    pub fn grown_bytes(&self) -> u64 {
        self.parts.grown_bytes()
    }

    /// Creates memory for `pieces`, in order, and stitches it in from `offset_bytes` on, open to
    /// `grants`.
    ///
    /// # Errors
    /// Alignment, range, [`Error::Occupied`], [`Error::Unreachable`], or the driver's; nothing has
    /// changed.
    pub fn stitch(&mut self, offset_bytes: u64, pieces: &[Piece], grants: &[Grant]) -> Result<()> {
        let mut bytes: u64 = 0;
        for piece in pieces {
            self.whole_granules("piece", piece.bytes)?;
            self.reachable(*piece, grants)?;
            bytes = bytes.checked_add(piece.bytes).ok_or_else(|| self.parts.out_of_range(offset_bytes, piece.bytes))?;
        }
        self.parts.demand_inside(offset_bytes, bytes)?;
        if !offset_bytes.is_multiple_of(self.spec.granule_bytes) {
            return Err(self.unaligned("offset", offset_bytes));
        }
        let handles = self.create(pieces)?;
        self.stitch_handles(offset_bytes, handles, grants)
    }

    /// Stitches memory in behind the run that begins at the start of the range.
    ///
    /// # Errors
    /// As [`stitch`](Self::stitch).
    pub fn grow(&mut self, pieces: &[Piece], grants: &[Grant]) -> Result<()> {
        self.stitch(self.grown_bytes(), pieces, grants)
    }

    /// Stitches existing handles in: an alias where another mapping has them too.
    ///
    /// # Errors
    /// As [`stitch`](Self::stitch).
    pub fn stitch_handles(
        &mut self,
        offset_bytes: u64,
        handles: Vec<Arc<PhysicalHandle>>,
        grants: &[Grant],
    ) -> Result<()> {
        let bytes = handles.iter().map(|handle| handle.bytes()).sum();
        self.parts.demand_inside(offset_bytes, bytes)?;
        for handle in &handles {
            self.reachable(Piece { device: handle.device(), bytes: handle.bytes() }, grants)?;
        }
        let start = self.at() + offset_bytes;
        let (index, vacancy) = self.parts.take_vacancy(start, bytes)?;
        let span = (vacancy.at(), vacancy.bytes());
        let (low, vacancy) = match vacancy.split(start.bytes_from(span.0)) {
            Ok((low, high)) => (Some(low), high),
            Err(whole) => (None, whole),
        };
        let (parts, outcome): (Vec<Part>, _) = match map_run(vacancy, handles, grants) {
            Ok((run, rest)) => {
                let run = run.into_iter().map(|mapping| Part::Mapped(Opened { mapping, grants: grants.to_vec() }));
                (low.map(Part::Vacant).into_iter().chain(run).chain(rest.map(Part::Vacant)).collect(), Ok(()))
            }
            Err(failure) => (vacant(low.into_iter().chain(failure.vacancies)), Err(failure.error.into())),
        };
        self.parts.put(index, span, parts);
        outcome
    }

    /// Takes the memory from a part and gives the handles back, in address order. The addresses stay
    /// reserved. A mapping that the driver refuses to unmap is put back with all the others.
    ///
    /// # Errors
    /// Range, [`Error::InsideMapping`], [`Error::NotMapped`], or the driver's; nothing has changed.
    pub fn take(&mut self, offset_bytes: u64, bytes: u64) -> Result<Vec<Arc<PhysicalHandle>>> {
        let indices = self.parts.mapped(offset_bytes, bytes)?;
        let index = indices.start;
        let (parts, outcome) = match Taken::all(self.parts.take(indices)) {
            Ok(taken) => {
                let (vacancies, handles): (Vec<_>, _) =
                    taken.into_iter().map(|taken| (taken.vacancy, taken.handle)).unzip();
                (vacant(vacancies), Ok(handles))
            }
            Err((error, parts)) => (parts, Err(error.into())),
        };
        self.parts.put(index, (self.at() + offset_bytes, bytes), parts);
        outcome
    }

    /// Gives memory back from the end of the run that begins at the start of the range.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn shrink(&mut self, bytes: u64) -> Result<Vec<Arc<PhysicalHandle>>> {
        let grown_bytes = self.grown_bytes();
        let offset_bytes = grown_bytes.checked_sub(bytes).ok_or_else(|| self.parts.out_of_range(0, bytes))?;
        self.take(offset_bytes, bytes)
    }

    /// Puts other memory behind a part; the old handles come back. Rights stay as they were asked
    /// for, byte by byte, if the new handles have the sizes of the old; else each new handle gets
    /// the rights of the part's first mapping.
    ///
    /// # Errors
    /// As [`take`](Self::take); [`Error::OutOfRange`] if the sizes do not add up. On an error the
    /// old memory stands again.
    pub fn replace(
        &mut self,
        offset_bytes: u64,
        handles: Vec<Arc<PhysicalHandle>>,
    ) -> Result<Vec<Arc<PhysicalHandle>>> {
        let bytes = handles.iter().map(|handle| handle.bytes()).sum();
        let indices = self.parts.mapped(offset_bytes, bytes)?;
        let wanted: Vec<Vec<Grant>> = self.parts.opened(indices).map(|opened| opened.grants.clone()).collect();
        let old = self.take(offset_bytes, bytes)?;
        let same_sizes = old.iter().map(|h| h.bytes()).eq(handles.iter().map(|h| h.bytes()));
        let rights = |index: usize| if same_sizes { wanted.get(index) } else { wanted.first() };
        if let Err(error) = self.stitch_each(offset_bytes, handles, &rights) {
            if let Err(second) = self.stitch_each(offset_bytes, old.clone(), &|index| wanted.get(index)) {
                old.into_iter().for_each(|handle| handle.give_up(second.clone().into_refusal()));
            }
            return Err(error);
        }
        Ok(old)
    }

    /// Changes what devices may do with a part; devices not named keep their rights.
    ///
    /// # Errors
    /// Range, [`Error::InsideMapping`], [`Error::NotMapped`], [`Error::Unreachable`], or the
    /// driver's; nothing has changed.
    pub fn open(&mut self, offset_bytes: u64, bytes: u64, grants: &[Grant]) -> Result<()> {
        let indices = self.parts.mapped(offset_bytes, bytes)?;
        let run = || self.parts.opened(indices.clone()).map(|opened| &opened.mapping);
        for mapping in run() {
            self.reachable(Piece { device: mapping.device(), bytes: mapping.bytes() }, grants)?;
        }
        open(run(), grants)?;
        self.parts.note(indices, grants);
        Ok(())
    }

    /// Every piece of memory behind a part, in address order.
    ///
    /// # Errors
    /// Range, or [`Error::NotMapped`] at the first hole.
    pub fn segments(&self, offset_bytes: u64, bytes: u64) -> Result<Vec<Segment>> {
        self.parts.demand_inside(offset_bytes, bytes)?;
        let start = self.at() + offset_bytes;
        let segments: Vec<Segment> = self.parts.mappings().filter_map(|m| Segment::of(m, start, bytes)).collect();
        let mut end = start;
        for segment in &segments {
            if segment.at != end {
                return Err(Error::NotMapped { at: end });
            }
            end = segment.at + segment.bytes;
        }
        if end != start + bytes {
            return Err(Error::NotMapped { at: end });
        }
        Ok(segments)
    }

    /// The range as a line of letters, one a granule: see [`picture`](crate::picture()).
    #[must_use]
    pub fn picture(&self) -> String {
        let placed = self.parts.mappings().map(|mapping| (mapping.at().bytes_from(self.at()), mapping));
        crate::picture(placed, self.spec.bytes, self.spec.granule_bytes)
    }

    /// Checks the invariants at the parts.
    ///
    /// # Errors
    /// What is broken, in words.
    pub fn check(&self) -> std::result::Result<(), String> {
        self.parts.check()
    }

    fn create(&self, pieces: &[Piece]) -> Result<Vec<Arc<PhysicalHandle>>> {
        let mut handles = Vec::new();
        for piece in pieces {
            let mut rest = piece.bytes;
            while rest > 0 {
                let bytes = rest.min(self.spec.handle_bytes);
                let spec = HandleSpec { device: piece.device, bytes, kind: self.spec.kind };
                handles.push(PhysicalHandle::create(&self.origin, spec)?);
                rest -= bytes;
            }
        }
        Ok(handles)
    }

    /// Stitches handles one by one, each with the rights that `rights` names for it; undoes all of
    /// them at the first refusal.
    fn stitch_each<'a>(
        &mut self,
        offset_bytes: u64,
        handles: Vec<Arc<PhysicalHandle>>,
        rights: &dyn Fn(usize) -> Option<&'a Vec<Grant>>,
    ) -> Result<()> {
        let mut done_bytes = 0;
        for (index, handle) in handles.into_iter().enumerate() {
            let bytes = handle.bytes();
            let grants = rights(index).map(Vec::as_slice).unwrap_or_default();
            if let Err(error) = self.stitch_handles(offset_bytes + done_bytes, vec![handle], grants) {
                if done_bytes > 0 {
                    // What does not go keeps its place: the first refusal is the one to tell.
                    drop(self.take(offset_bytes, done_bytes));
                }
                return Err(error);
            }
            done_bytes += bytes;
        }
        Ok(())
    }

    fn whole_granules(&self, what: &'static str, bytes: u64) -> Result<()> {
        match bytes > 0 && bytes.is_multiple_of(self.spec.granule_bytes) {
            true => Ok(()),
            false => Err(self.unaligned(what, bytes)),
        }
    }

    const fn unaligned(&self, what: &'static str, bytes: u64) -> Error {
        Error::Unaligned { what, bytes, granule_bytes: self.spec.granule_bytes }
    }

    fn reachable(&self, piece: Piece, grants: &[Grant]) -> Result<()> {
        for grant in grants.iter().filter(|grant| grant.rights != Rights::None) {
            if self.origin.driver().link(grant.device, piece.device)? == Link::None {
                return Err(Error::Unreachable { reader: grant.device, owner: piece.device });
            }
        }
        Ok(())
    }
}

/// Vacancies that come in address order, neighbours joined.
fn vacant(vacancies: impl IntoIterator<Item = Vacancy>) -> Vec<Part> {
    join_all(vacancies).into_iter().map(Part::Vacant).collect()
}
