//! What numbers the driver gave to streams, for the time of a capture: of a stream that is being captured it
//! tells none, and the question would break the capture.

use crate::RawStream;
use parking_lot::Mutex;

/// The numbers of the streams that were asked for last.
#[derive(Debug)]
pub(super) struct Identities {
    /// Each stream at the place that its value names; whoever comes later takes the place.
    last: Mutex<[Option<(RawStream, u64)>; PLACES]>,
}

/// Streams' values are addresses of small objects, so their low bits tell nothing.
const PLACES: usize = 256;
const LOW_BITS: u32 = 4;

impl Default for Identities {
    fn default() -> Self {
        Self { last: Mutex::new([None; PLACES]) }
    }
}

impl Identities {
    pub(super) fn note(&self, stream: RawStream, identity: u64) {
        self.last.lock()[place(stream)] = Some((stream, identity));
    }

    pub(super) fn of(&self, stream: RawStream) -> Option<u64> {
        let noted = self.last.lock()[place(stream)];
        noted.filter(|(known, _)| *known == stream).map(|(_, identity)| identity)
    }
}

const fn place(stream: RawStream) -> usize {
    let value = stream.value >> LOW_BITS;
    (value ^ (value >> 8) ^ (stream.device.0 as u64)) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceId;

    #[test]
    fn a_number_is_known_until_another_stream_takes_its_place() {
        let identities = Identities::default();
        let stream = |device, value| RawStream { device: DeviceId(device), value };
        assert_eq!(identities.of(stream(0, 64)), None);
        identities.note(stream(0, 64), 7);
        assert_eq!((identities.of(stream(0, 64)), identities.of(stream(1, 64))), (Some(7), None));
        identities.note(stream(0, 64), 8);
        assert_eq!(identities.of(stream(0, 64)), Some(8));
    }
}
