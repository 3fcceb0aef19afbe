//! A request with all that can be asked for.

use super::device::device_of;
use crate::place::items;
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::status::Status;
use stitchpool_pool::{ArenaId, Piece, Placement, Request, StreamId};

/// `stitchpool_request`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CRequest {
    pub struct_size: usize,
    pub bytes: u64,
    pub stream: u64,
    pub alignment_bytes: u64,
    pub pieces: *const CPiece,
    pub piece_count: usize,
    pub readers: *const i32,
    pub reader_count: usize,
    pub stripe_bytes: u64,
    pub placement: i32,
    pub arena: u32,
    pub exclusive: i32,
    pub reserved: u32,
}

// SAFETY: the size, then numbers and pointers, without padding.
unsafe impl Record for CRequest {
    const NAME: &'static str = "stitchpool_request";
    const FIRST_BYTES: usize = 80;
}

/// `stitchpool_piece`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CPiece {
    pub device: i32,
    pub weight: u32,
    pub bytes: u64,
}

impl CRequest {
    /// What fields mean that the caller does not have.
    pub(crate) const NOTHING: Self = Self {
        struct_size: size_of::<Self>(),
        bytes: 0,
        stream: 0,
        alignment_bytes: 0,
        pieces: std::ptr::null(),
        piece_count: 0,
        readers: std::ptr::null(),
        reader_count: 0,
        stripe_bytes: 0,
        placement: 0,
        arena: 0,
        exclusive: 0,
        reserved: 0,
    };

    /// # Safety
    /// - `pieces` and `readers` are each null, or as many items as their counts say can be read there.
    pub(crate) unsafe fn understood(&self, stream: StreamId) -> Result<Request> {
        // SAFETY: the caller answers for the list.
        let pieces = unsafe { items(self.pieces, self.piece_count, "stitchpool_request.pieces") }?;
        // SAFETY: the caller answers for the list.
        let readers = unsafe { items(self.readers, self.reader_count, "stitchpool_request.readers") }?;
        let mut request = Request::new(self.bytes, stream);
        if self.alignment_bytes != 0 {
            request.alignment_bytes = self.alignment_bytes;
        }
        request.placement = self.placement(pieces)?;
        request.arena = ArenaId::of_number(self.arena);
        request.exclusive = match self.exclusive {
            0 | 1 => self.exclusive == 1,
            other => {
                let words = format!("{}.exclusive is {other}: 0 is no, 1 yes", Self::NAME);
                return Err(Refusal::new(Status::InvalidArgument, words));
            }
        };
        request.readers = readers.iter().map(|reader| device_of(*reader)).collect::<Result<_>>()?;
        Ok(request)
    }

    fn placement(&self, pieces: &[CPiece]) -> Result<Option<Placement>> {
        let devices = || pieces.iter().map(|piece| device_of(piece.device)).collect::<Result<Vec<_>>>();
        Ok(Some(match (self.placement, pieces) {
            (0, []) => return Ok(None),
            (1, [home]) => Placement::Home(device_of(home.device)?),
            (2, [_, ..]) => Placement::Spill(devices()?),
            (3, [_, ..]) => Placement::RoundRobin { devices: devices()?, stripe_bytes: self.stripe_bytes },
            (4, [_, ..]) => {
                let weights = pieces.iter().map(|piece| piece.weight);
                Placement::Weighted(devices()?.into_iter().zip(weights).collect())
            }
            (5, [_, ..]) => {
                let shard = |piece: &CPiece| Ok(Piece { device: device_of(piece.device)?, bytes: piece.bytes });
                Placement::Shards(pieces.iter().map(shard).collect::<Result<_>>()?)
            }
            (placement, _) => {
                let words = format!(
                    "{}.placement is {placement} with {} pieces: 0 takes none, 1 (home) one, 2 (spill), \
                     3 (round robin), 4 (weighted) and 5 (shards) one or more",
                    Self::NAME,
                    pieces.len()
                );
                return Err(Refusal::new(Status::InvalidArgument, words));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stitchpool_driver::DeviceId;

    #[test]
    fn every_placement_has_its_number() {
        let (here, there) = (DeviceId(0), DeviceId(1));
        let pieces = [CPiece { device: 0, weight: 3, bytes: 4096 }, CPiece { device: 1, weight: 1, bytes: 8192 }];
        let placed = |placement, count: usize| {
            CRequest { placement, stripe_bytes: 64, ..CRequest::NOTHING }.placement(&pieces[..count])
        };
        let shards = vec![Piece { device: here, bytes: 4096 }, Piece { device: there, bytes: 8192 }];
        let expected = [
            (0, 0, None),
            (1, 1, Some(Placement::Home(here))),
            (2, 2, Some(Placement::Spill(vec![here, there]))),
            (3, 2, Some(Placement::RoundRobin { devices: vec![here, there], stripe_bytes: 64 })),
            (4, 2, Some(Placement::Weighted(vec![(here, 3), (there, 1)]))),
            (5, 2, Some(Placement::Shards(shards))),
        ];
        for (number, count, placement) in expected {
            assert_eq!(placed(number, count).unwrap(), placement);
        }
        for (number, count) in [(0, 1), (1, 0), (1, 2), (2, 0), (3, 0), (4, 0), (5, 0), (6, 1), (-1, 0)] {
            assert_eq!(placed(number, count).unwrap_err().status, Status::InvalidArgument);
        }
    }
}
