//! A contiguous address range stitched from chunks of any devices. It plans nothing: callers say
//! which device's memory goes where.

use crate::run::join_all;
use crate::{Error, Mapping, Origin, PhysicalHandle, Piece, Reservation, Result, Segment, Vacancy, map_run, open};
use std::sync::Arc;
use stitchpool_driver::{Address, Grant, HandleKind, HandleSpec, Link};

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
    at: Address,
    /// In address order, without gap or overlap, over the whole range. Two vacancies are never
    /// neighbours.
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Vacant(Vacancy),
    Mapped {
        mapping: Mapping,
        grants: Vec<Grant>,
    },
    /// The driver refused to unmap here; the address is gone for good.
    Lost {
        at: Address,
        bytes: u64,
    },
}

impl Part {
    fn span(&self) -> (Address, u64) {
        match self {
            Self::Vacant(vacancy) => (vacancy.at(), vacancy.bytes()),
            Self::Mapped { mapping, .. } => (mapping.at(), mapping.bytes()),
            Self::Lost { at, bytes } => (*at, *bytes),
        }
    }

    fn end(&self) -> Address {
        let (at, bytes) = self.span();
        at + bytes
    }

    const fn mapping(&self) -> Option<&Mapping> {
        match self {
            Self::Mapped { mapping, .. } => Some(mapping),
            _ => None,
        }
    }
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
        let at = vacancy.at();
        Ok(Self { origin: origin.clone(), spec, at, parts: vec![Part::Vacant(vacancy)] })
    }

    /// Its first address.
    #[must_use]
    pub const fn at(&self) -> Address {
        self.at
    }

    /// How many bytes of addresses it has.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.spec.bytes
    }

    /// How many of them have memory behind them.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mappings().map(Mapping::bytes).sum()
    }

    /// Where the run of memory that begins at the start of the range ends, in bytes.
    #[must_use]
    pub fn grown_bytes(&self) -> u64 {
        self.parts.iter().map_while(Part::mapping).map(Mapping::bytes).sum()
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
            bytes = bytes.checked_add(piece.bytes).ok_or_else(|| self.out_of_range(offset_bytes, piece.bytes))?;
        }
        self.check_part(offset_bytes, bytes)?;
        self.whole_granules("offset", offset_bytes + self.spec.granule_bytes)?;
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
        self.check_part(offset_bytes, bytes)?;
        for handle in &handles {
            self.reachable(Piece { device: handle.device(), bytes: handle.bytes() }, grants)?;
        }
        let start = self.at + offset_bytes;
        let index = self.part_at(start);
        let (part_at, part_bytes) = self.parts[index].span();
        let room = part_bytes - start.bytes_from(part_at);
        if !matches!(self.parts[index], Part::Vacant(_)) || room < bytes {
            let at = if matches!(self.parts[index], Part::Vacant(_)) { part_at + part_bytes } else { start };
            return Err(Error::Occupied { at });
        }
        let Part::Vacant(vacancy) = self.parts.remove(index) else { return Err(Error::Occupied { at: start }) };
        let (low, vacancy) = match vacancy.split(start.bytes_from(part_at)) {
            Ok((low, high)) => (Some(low), high),
            Err(whole) => (None, whole),
        };
        let (parts, outcome): (Vec<Part>, _) = match map_run(vacancy, handles, grants) {
            Ok((run, rest)) => {
                let run = run.into_iter().map(|mapping| Part::Mapped { mapping, grants: grants.to_vec() });
                (low.map(Part::Vacant).into_iter().chain(run).chain(rest.map(Part::Vacant)).collect(), Ok(()))
            }
            Err(failure) => {
                let undone = join_all(low.into_iter().chain(failure.vacancies));
                (undone.into_iter().map(Part::Vacant).collect(), Err(failure.error.into()))
            }
        };
        self.put_parts(index, part_at, part_bytes, parts);
        outcome
    }

    /// Takes the memory from a part and gives the handles back, in address order. The addresses stay
    /// reserved. A mapping that the driver refuses to unmap is put back with all the others.
    ///
    /// # Errors
    /// Range, [`Error::InsideMapping`], [`Error::NotMapped`], or the driver's; nothing has changed.
    pub fn take(&mut self, offset_bytes: u64, bytes: u64) -> Result<Vec<Arc<PhysicalHandle>>> {
        let span = self.mapped_span(offset_bytes, bytes)?;
        let (start, end) = (self.at + offset_bytes, self.at + offset_bytes + bytes);
        let index = span.start;
        let mut old: Vec<Part> = self.parts.drain(span).collect();
        let mut taken: Vec<(Vacancy, Arc<PhysicalHandle>, Vec<Grant>)> = Vec::with_capacity(old.len());
        let mut failure = None;
        while failure.is_none() && !old.is_empty() {
            let Part::Mapped { mapping, grants } = old.remove(0) else { continue };
            match mapping.unmap() {
                Ok((vacancy, handle)) => taken.push((vacancy, handle, grants)),
                Err((error, mapping)) => {
                    failure = Some(error);
                    old.insert(0, Part::Mapped { mapping, grants });
                }
            }
        }
        let Some(error) = failure else {
            let (vacancies, handles): (Vec<_>, Vec<_>) =
                taken.into_iter().map(|(vacancy, handle, _)| (vacancy, handle)).unzip();
            let parts = join_all(vacancies).into_iter().map(Part::Vacant).collect();
            self.put_parts(index, start, end.bytes_from(start), parts);
            self.join_vacancies();
            return Ok(handles);
        };
        let mut parts = remap(taken);
        parts.append(&mut old);
        self.put_parts(index, start, end.bytes_from(start), parts);
        self.join_vacancies();
        Err(error.into())
    }

    /// Gives memory back from the end of the run that begins at the start of the range.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn shrink(&mut self, bytes: u64) -> Result<Vec<Arc<PhysicalHandle>>> {
        let grown_bytes = self.grown_bytes();
        let offset_bytes = grown_bytes.checked_sub(bytes).ok_or_else(|| self.out_of_range(0, bytes))?;
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
        let span = self.mapped_span(offset_bytes, bytes)?;
        let wanted: Vec<Vec<Grant>> = self.parts[span].iter().filter_map(grants_of).collect();
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
        let span = self.mapped_span(offset_bytes, bytes)?;
        for mapping in self.parts[span.clone()].iter().filter_map(Part::mapping) {
            self.reachable(Piece { device: mapping.device(), bytes: mapping.bytes() }, grants)?;
        }
        open(self.parts[span.clone()].iter().filter_map(Part::mapping), grants)?;
        for part in &mut self.parts[span] {
            if let Part::Mapped { grants: held, .. } = part {
                merge_grants(held, grants);
            }
        }
        Ok(())
    }

    /// Every piece of memory behind a part, in address order.
    ///
    /// # Errors
    /// Range, or [`Error::NotMapped`] at the first hole.
    pub fn segments(&self, offset_bytes: u64, bytes: u64) -> Result<Vec<Segment>> {
        self.check_part(offset_bytes, bytes)?;
        let start = self.at + offset_bytes;
        let segments: Vec<Segment> = self.mappings().filter_map(|m| Segment::of(m, start, bytes)).collect();
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
        let placed = self.mappings().map(|mapping| (mapping.at().bytes_from(self.at), mapping));
        crate::picture(placed, self.spec.bytes, self.spec.granule_bytes)
    }

    /// Checks the invariants at the fields.
    ///
    /// # Errors
    /// What is broken, in words.
    pub fn check(&self) -> std::result::Result<(), String> {
        let mut end = self.at;
        let mut after_vacancy = false;
        for part in &self.parts {
            let (at, bytes) = part.span();
            if at != end || bytes == 0 {
                return Err(format!("a part at {at} of {bytes} bytes follows the end {end}"));
            }
            let vacant = matches!(part, Part::Vacant(_));
            if vacant && after_vacancy {
                return Err(format!("two vacancies meet at {at}"));
            }
            (end, after_vacancy) = (at + bytes, vacant);
        }
        if end != self.at + self.spec.bytes {
            return Err(format!("the parts end at {end}, the range at {}", self.at + self.spec.bytes));
        }
        Ok(())
    }

    fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.parts.iter().filter_map(Part::mapping)
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

    /// Puts `parts` where the parts over `[at, at + bytes)` were taken out, and marks as lost what
    /// they leave uncovered.
    fn put_parts(&mut self, index: usize, at: Address, bytes: u64, parts: Vec<Part>) {
        let mut covered = Vec::with_capacity(parts.len());
        let mut end = at;
        for part in parts {
            let (part_at, _) = part.span();
            if part_at > end {
                covered.push(Part::Lost { at: end, bytes: part_at.bytes_from(end) });
            }
            end = part.end();
            covered.push(part);
        }
        if end < at + bytes {
            covered.push(Part::Lost { at: end, bytes: (at + bytes).bytes_from(end) });
        }
        self.parts.splice(index..index, covered);
    }

    fn join_vacancies(&mut self) {
        let mut joined: Vec<Part> = Vec::with_capacity(self.parts.len());
        for part in self.parts.drain(..) {
            match (joined.pop(), part) {
                (Some(Part::Vacant(low)), Part::Vacant(high)) => match low.join(high) {
                    Ok(whole) => joined.push(Part::Vacant(whole)),
                    Err((low, high)) => joined.extend([Part::Vacant(low), Part::Vacant(high)]),
                },
                (last, part) => joined.extend(last.into_iter().chain([part])),
            }
        }
        self.parts = joined;
    }

    /// Index of the part that holds `at`, which lies in the range.
    fn part_at(&self, at: Address) -> usize {
        self.parts.partition_point(|part| part.end() <= at)
    }

    /// The indices of the mappings that are exactly `[offset, offset + bytes)`.
    fn mapped_span(&self, offset_bytes: u64, bytes: u64) -> Result<std::ops::Range<usize>> {
        self.check_part(offset_bytes, bytes)?;
        let (start, end) = (self.at + offset_bytes, self.at + offset_bytes + bytes);
        let first = self.part_at(start);
        let mut last = first;
        while last < self.parts.len() && self.parts[last].span().0 < end {
            let (at, part_bytes) = self.parts[last].span();
            if self.parts[last].mapping().is_none() {
                return Err(Error::NotMapped { at: at.max(start) });
            }
            for border in [start, end] {
                if border > at && border < at + part_bytes {
                    return Err(Error::InsideMapping { at: border, mapping_at: at, mapping_bytes: part_bytes });
                }
            }
            last += 1;
        }
        Ok(first..last)
    }

    fn check_part(&self, offset_bytes: u64, bytes: u64) -> Result<()> {
        let inside = offset_bytes.checked_add(bytes).is_some_and(|end| end <= self.spec.bytes);
        if bytes == 0 || !inside {
            return Err(self.out_of_range(offset_bytes, bytes));
        }
        Ok(())
    }

    fn whole_granules(&self, what: &'static str, bytes: u64) -> Result<()> {
        let granule_bytes = self.spec.granule_bytes;
        if bytes == 0 || !bytes.is_multiple_of(granule_bytes) {
            return Err(Error::Unaligned { what, bytes, granule_bytes });
        }
        Ok(())
    }

    fn reachable(&self, piece: Piece, grants: &[Grant]) -> Result<()> {
        for grant in grants.iter().filter(|grant| grant.rights != stitchpool_driver::Rights::None) {
            if self.origin.driver().link(grant.device, piece.device)? == Link::None {
                return Err(Error::Unreachable { reader: grant.device, owner: piece.device });
            }
        }
        Ok(())
    }

    const fn out_of_range(&self, offset_bytes: u64, bytes: u64) -> Error {
        Error::OutOfRange { at: self.at, offset_bytes, bytes, range_bytes: self.spec.bytes }
    }
}

fn grants_of(part: &Part) -> Option<Vec<Grant>> {
    match part {
        Part::Mapped { grants, .. } => Some(grants.clone()),
        _ => None,
    }
}

fn merge_grants(held: &mut Vec<Grant>, grants: &[Grant]) {
    for grant in grants {
        match held.iter_mut().find(|of| of.device == grant.device) {
            Some(of) => of.rights = grant.rights,
            None => held.push(*grant),
        }
    }
}

/// Maps again what was just unmapped, with its rights. What will not come back is given up, and leaves
/// its vacancy.
fn remap(taken: Vec<(Vacancy, Arc<PhysicalHandle>, Vec<Grant>)>) -> Vec<Part> {
    let again =
        taken.into_iter().flat_map(|(vacancy, handle, grants)| match map_run(vacancy, vec![handle.clone()], &grants) {
            Ok((run, _)) => run.into_iter().map(|mapping| Part::Mapped { mapping, grants: grants.clone() }).collect(),
            Err(failure) => {
                handle.give_up(failure.error);
                failure.vacancies.into_iter().map(Part::Vacant).collect::<Vec<_>>()
            }
        });
    again.collect()
}
