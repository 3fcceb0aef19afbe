//! Where memory shall lie, byte for byte: as a placement says, and over that where it was sent.

use crate::mapper::chain::Chain;
use crate::mapper::parts::Parts;
use stitchpool_chunks::{Placement, Result};
use stitchpool_driver::DeviceId;

/// The device of each byte of a block or buffer, by its offset.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    /// What is before is not told.
    from: u64,
    /// From there on, one behind the other: where each ends, and its device.
    runs: Vec<(u64, DeviceId)>,
    /// Devices that will do as well.
    fallbacks: &'a [DeviceId],
}

impl<'a> Layout<'a> {
    /// Of so many bytes that a placement is laid over.
    pub(crate) fn of(placement: &'a Placement, bytes: u64, granule_bytes: u64) -> Result<Self> {
        Self::shifted(placement, 0, bytes, granule_bytes)
    }

    /// The same from an offset on.
    fn shifted(placement: &'a Placement, from: u64, bytes: u64, granule_bytes: u64) -> Result<Self> {
        let mut end = from;
        let pieces = placement.pieces(bytes, granule_bytes)?.into_iter();
        let runs = pieces.map(|piece| {
            end += piece.bytes;
            (end, piece.device)
        });
        Ok(Self { from, runs: runs.collect(), fallbacks: placement.fallbacks() })
    }

    /// Of a growable buffer, from one offset to another at least.
    pub(crate) fn of_buffer(
        chain: &Chain,
        placement: &'a Placement,
        (from, to): (u64, u64),
        granule_bytes: u64,
    ) -> Result<Self> {
        let start = chain.at().0;
        let placed = match placement {
            // Stripes repeat, so those before and behind need not be dealt.
            Placement::RoundRobin { devices, stripe_bytes } => {
                let deal_bytes = stripe_bytes.saturating_mul(devices.len() as u64).max(1);
                let first = from - from % deal_bytes;
                Self::shifted(placement, first, to - first, granule_bytes)?
            }
            _ => Self::of(placement, chain.end().0 - start, granule_bytes)?,
        };
        Ok(placed.sent(start, &chain.places))
    }

    /// The same for what begins at `start` and was sent to these places, part by part.
    fn sent(self, start: u64, places: &Parts<DeviceId>) -> Self {
        if places.is_empty() {
            return self;
        }
        let mut runs: Vec<(u64, DeviceId)> = Vec::with_capacity(self.runs.len());
        let mut at = self.from;
        for (end, placed) in self.runs {
            let first = runs.len();
            while at < end {
                let device = places.at(start + at).copied().unwrap_or(placed);
                at = places.border_behind(start + at).map_or(end, |border| end.min(border - start));
                match runs[first..].last_mut() {
                    Some(last) if last.1 == device => last.0 = at,
                    _ => runs.push((at, device)),
                }
            }
        }
        Self { runs, ..self }
    }

    /// The device for what is at `offset`, and up to where it is that one.
    pub(crate) fn at(&self, offset: u64) -> Option<(u64, DeviceId)> {
        self.runs.get(self.runs.partition_point(|run| run.0 <= offset)).copied()
    }

    /// The devices that what is from one offset to another may lie on.
    pub(crate) fn devices(&self, (from, to): (u64, u64)) -> impl Iterator<Item = DeviceId> + '_ {
        let first = self.runs.partition_point(|run| run.0 <= from);
        let last = self.runs.partition_point(|run| run.0 < to);
        let runs = self.runs.iter().take(last + 1).skip(first).map(|run| run.1);
        runs.chain(self.fallbacks.iter().copied())
    }

    /// Whether a handle from one offset to another may lie on a device.
    pub(crate) fn allows(&self, (from, to): (u64, u64), device: DeviceId) -> bool {
        let fits = |(end, home): (u64, DeviceId)| to <= end && (home == device || self.fallbacks.contains(&device));
        self.at(from).is_some_and(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stitchpool_chunks::{Origin, Piece, Reservation};
    use stitchpool_driver::host::{HostConfig, HostDriver};

    const A: DeviceId = DeviceId(0);
    const B: DeviceId = DeviceId(1);
    const C: DeviceId = DeviceId(2);

    #[test]
    fn what_was_sent_somewhere_lies_there_and_the_rest_as_placed() {
        let shards = [Piece { device: A, bytes: 8 }, Piece { device: B, bytes: 8 }];
        let placement = Placement::Shards(shards.to_vec());
        let layout = || Layout::of(&placement, 16, 1).unwrap();
        assert_eq!(layout().runs, [(8, A), (16, B)]);
        let mut places = Parts::default();
        assert_eq!(layout().sent(100, &places).runs, layout().runs);
        places.change(102..104, |_| C);
        places.change(104..112, |_| C);
        let sent = layout().sent(100, &places);
        assert_eq!(sent.runs, [(2, A), (8, C), (12, C), (16, B)]);
        assert_eq!(
            [0, 2, 8, 15, 16].map(|at| sent.at(at)),
            [Some((2, A)), Some((8, C)), Some((12, C)), Some((16, B)), None]
        );
        let devices = |part: (u64, u64)| sent.devices(part).collect::<Vec<_>>();
        assert_eq!([devices((0, 2)), devices((1, 8)), devices((8, 13))], [vec![A], vec![A, C], vec![C, B]]);
        assert!(sent.allows((0, 2), A) && sent.allows((3, 8), C) && sent.allows((12, 16), B));
        assert!(!sent.allows((0, 3), A) && !sent.allows((2, 4), A) && !sent.allows((14, 17), B));
    }

    #[test]
    fn stripes_are_the_same_from_any_offset_on() {
        let placement = Placement::RoundRobin { devices: vec![A, B, C], stripe_bytes: 4 };
        let vacancy = Reservation::reserve(&Origin::new(HostDriver::new(HostConfig::default()).unwrap()), 256 << 20, 0);
        let mut chain = Chain::new(vacancy.unwrap(), 0, 2 << 20);
        let start = chain.at().0;
        chain.places.change(start + 30..start + 42, |_| B);
        let whole = Layout::of(&placement, 120, 1).unwrap().sent(start, &chain.places);
        for from in 0..119 {
            let part = Layout::of_buffer(&chain, &placement, (from, from + 1), 1).unwrap();
            assert_eq!(part.at(from).map(|run| run.1), whole.at(from).map(|run| run.1), "at {from}");
            assert!(part.runs.len() < 8, "{} runs are told", part.runs.len());
        }
    }

    #[test]
    fn where_it_may_spill_it_may_lie() {
        let placement = Placement::Spill(vec![A, B]);
        let mut places = Parts::default();
        places.change(4..8, |_| C);
        let layout = Layout::of(&placement, 8, 1).unwrap().sent(0, &places);
        let may = |from, device| layout.allows((from, from + 4), device);
        assert!(may(0, A) && may(0, B) && !may(0, C));
        assert!(!may(4, A) && may(4, B) && may(4, C));
    }
}
