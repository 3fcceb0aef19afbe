//! The parts of a stitched range, in their order. They cover it whatever happens to their memory.

use super::part::{Opened, Part};
use crate::{Error, Mapping, Result, Vacancy};
use std::ops::Range;
use stitchpool_driver::{Address, Grant};

#[derive(Debug)]
pub(super) struct Parts {
    at: Address,
    bytes: u64,
    /// In address order, without gap or overlap, over the whole range. Two vacancies are never
    /// neighbours.
    parts: Vec<Part>,
}

impl Parts {
    pub(super) fn new(whole: Vacancy) -> Self {
        Self { at: whole.at(), bytes: whole.bytes(), parts: vec![Part::Vacant(whole)] }
    }

    pub(super) const fn at(&self) -> Address {
        self.at
    }

    pub(super) fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.parts.iter().filter_map(Part::opened).map(|opened| &opened.mapping)
    }

    /// Where the run of memory that begins at the start of the range ends, in bytes.
    pub(super) fn grown_bytes(&self) -> u64 {
        self.parts.iter().map_while(Part::opened).map(|opened| opened.mapping.bytes()).sum()
    }

    /// What the indices name, which [`mapped`](Self::mapped) gave.
    pub(super) fn opened(&self, indices: Range<usize>) -> impl Iterator<Item = &Opened> {
        self.parts[indices].iter().filter_map(Part::opened)
    }

    /// Notes rights that were given over what the indices name.
    pub(super) fn note(&mut self, indices: Range<usize>, given: &[Grant]) {
        for part in &mut self.parts[indices] {
            if let Part::Mapped(opened) = part {
                opened.note(given);
            }
        }
    }

    /// Takes out what the indices name. The caller puts something in its place.
    pub(super) fn take(&mut self, indices: Range<usize>) -> Vec<Opened> {
        let taken = self.parts.drain(indices);
        taken.filter_map(|part| if let Part::Mapped(opened) = part { Some(opened) } else { None }).collect()
    }

    /// Takes out the vacancy that `[start, start + bytes)` lies in, with its index. The caller puts something in its place.
    pub(super) fn take_vacancy(&mut self, start: Address, bytes: u64) -> Result<(usize, Vacancy)> {
        let index = self.index_of(start);
        match self.parts.remove(index) {
            Part::Vacant(vacancy) if vacancy.end() >= start + bytes => Ok((index, vacancy)),
            refused => {
                let at = if let Part::Vacant(vacancy) = &refused { vacancy.end() } else { start };
                self.parts.insert(index, refused);
                Err(Error::Occupied { at })
            }
        }
    }

    /// Puts `parts` where those over `[at, at + bytes)` were taken out, and marks as lost what they leave uncovered.
    pub(super) fn put(&mut self, index: usize, (at, bytes): (Address, u64), parts: Vec<Part>) {
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
        self.join_vacancies();
    }

    /// The indices of the mappings that are exactly `[offset_bytes, offset_bytes + bytes)`.
    pub(super) fn mapped(&self, offset_bytes: u64, bytes: u64) -> Result<Range<usize>> {
        self.demand_inside(offset_bytes, bytes)?;
        let (start, end) = (self.at + offset_bytes, self.at + offset_bytes + bytes);
        let first = self.index_of(start);
        let mut last = first;
        while last < self.parts.len() && self.parts[last].span().0 < end {
            let (at, part_bytes) = self.parts[last].span();
            if self.parts[last].opened().is_none() {
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

    pub(super) fn demand_inside(&self, offset_bytes: u64, bytes: u64) -> Result<()> {
        let inside = offset_bytes.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if bytes == 0 || !inside {
            return Err(self.out_of_range(offset_bytes, bytes));
        }
        Ok(())
    }

    pub(super) const fn out_of_range(&self, offset_bytes: u64, bytes: u64) -> Error {
        Error::OutOfRange { at: self.at, offset_bytes, bytes, range_bytes: self.bytes }
    }

    /// Checks the invariants at the field.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
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
        if end != self.at + self.bytes {
            return Err(format!("the parts end at {end}, the range at {}", self.at + self.bytes));
        }
        Ok(())
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

    /// The index of the part that holds `at`, which lies in the range.
    fn index_of(&self, at: Address) -> usize {
        self.parts.partition_point(|part| part.end() <= at)
    }
}
