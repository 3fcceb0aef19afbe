//! Where memory stood over time, as the page reads it: each stay of a handle at an address once, with how full
//! it was at each survey.

use super::frames::{Cell, Frames, Place};
use super::packed::Packed;
use serde::Serialize;
use std::collections::HashMap;

/// All stays, a column a property, in order of the survey that saw each first.
#[derive(Debug, Serialize)]
pub struct Map {
    /// Lengths and places count in it.
    granule_bytes: u64,
    /// When each survey was made, in microseconds.
    times_us: Vec<u64>,
    /// The addresses that were ever in use, as `(first address, granules)`, ascending. Places count through them.
    runs: Vec<(String, u64)>,
    /// The device of each handle.
    handle_device: Packed<u16>,
    /// The length of each handle.
    handle_granules: Packed<u32>,
    /// Where the stay is; [`NOWHERE`]: idle.
    place: Packed<u32>,
    granules: Packed<u32>,
    /// [`NOWHERE`]: none stands there.
    handle: Packed<u32>,
    state: Packed<u8>,
    /// The first survey that saw it, and the last.
    first: Packed<u16>,
    last: Packed<u16>,
    /// Its live bytes in 255ths, at each survey from first to last; one stay after the other.
    live: Packed<u8>,
    /// The entries of `live` whose stay has pending bytes, and how many 255ths.
    pending_at: Packed<u32>,
    pending: Packed<u8>,
}

/// No address, or no handle.
const NOWHERE: u32 = u32::MAX;

/// A handle at an address, or a hole, from one survey to another.
struct Stay {
    place: Place,
    first: u16,
    /// Live and pending shares, one a survey.
    shares: Vec<(u8, u8)>,
}

impl Stay {
    fn last(&self) -> u16 {
        self.first + narrow(self.shares.len() - 1)
    }
}

impl Map {
    /// Made of surveys; sizes are multiples of `granule_bytes`.
    pub fn new(frames: &Frames, granule_bytes: u64) -> Self {
        let stays = stays(frames);
        let runs = runs(&stays);
        let granules = |bytes: u64| u32::try_from(bytes / granule_bytes).unwrap_or(NOWHERE);
        let place = |stay: &Stay| stay.place.at.map_or(NOWHERE, |at| granules(through(&runs, at)));
        let shares = stays.iter().flat_map(|stay| &stay.shares);
        let waiting = (0..).zip(shares.clone()).filter(|(_, share)| share.1 > 0);
        Self {
            granule_bytes,
            times_us: frames.frames.iter().map(|frame| frame.time_us).collect(),
            runs: runs.iter().map(|run| (format!("{:#x}", run.start), run.bytes / granule_bytes)).collect(),
            handle_device: Packed(frames.handles.iter().map(|handle| handle.device.0).collect()),
            handle_granules: Packed(frames.handles.iter().map(|handle| granules(handle.bytes)).collect()),
            place: Packed(stays.iter().map(place).collect()),
            granules: Packed(stays.iter().map(|stay| granules(stay.place.bytes)).collect()),
            handle: Packed(stays.iter().map(|stay| stay.place.handle.unwrap_or(NOWHERE)).collect()),
            state: Packed(stays.iter().map(|stay| stay.place.state as u8).collect()),
            first: Packed(stays.iter().map(|stay| stay.first).collect()),
            last: Packed(stays.iter().map(Stay::last).collect()),
            live: Packed(shares.clone().map(|share| share.0).collect()),
            pending_at: Packed(waiting.clone().map(|(at, _)| at).collect()),
            pending: Packed(waiting.map(|(_, share)| share.1).collect()),
        }
    }
}

/// What is the same in one survey and the next is one stay.
fn stays(frames: &Frames) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    let mut open: HashMap<Place, usize> = HashMap::new();
    for (number, frame) in frames.frames.iter().enumerate() {
        let mut still_open = HashMap::with_capacity(frame.cells.len());
        for &Cell { place, live, pending } in &frame.cells {
            let stay = open.remove(&place).unwrap_or_else(|| {
                stays.push(Stay { place, first: narrow(number), shares: Vec::new() });
                stays.len() - 1
            });
            stays[stay].shares.push((live, pending));
            still_open.insert(place, stay);
        }
        open = still_open;
    }
    stays
}

fn narrow(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Addresses in use, and how many bytes of such addresses lie below.
struct Run {
    start: u64,
    bytes: u64,
    below_bytes: u64,
}

/// The addresses of all stays, joined where they touch.
fn runs(stays: &[Stay]) -> Vec<Run> {
    let mut parts: Vec<(u64, u64)> =
        stays.iter().filter_map(|stay| Some((stay.place.at?, stay.place.at? + stay.place.bytes))).collect();
    parts.sort_unstable();
    let mut runs: Vec<Run> = Vec::new();
    for (start, end) in parts {
        match runs.last_mut() {
            Some(run) if start <= run.start + run.bytes => run.bytes = run.bytes.max(end - run.start),
            last => {
                let below_bytes = last.map_or(0, |run| run.below_bytes + run.bytes);
                runs.push(Run { start, bytes: end - start, below_bytes });
            }
        }
    }
    runs
}

/// How many bytes of addresses in use lie below `at`, which is one of them.
fn through(runs: &[Run], at: u64) -> u64 {
    let next = runs.partition_point(|run| run.start <= at);
    let run = next.checked_sub(1).and_then(|index| runs.get(index));
    run.map_or(0, |run| run.below_bytes + (at - run.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stitchpool_driver::{Address, DeviceId, RawHandle};
    use stitchpool_pool::{SlotState, Survey, SurveyedHandle, SurveyedSlot};

    const GRANULE: u64 = 2 << 20;

    fn slot(at: u64, raw: u64, live_bytes: u64) -> SurveyedSlot {
        let handle = SurveyedHandle { raw: RawHandle(raw), device: DeviceId(0), bytes: GRANULE };
        let state = SlotState::Current;
        let (at, chain) = (Address(at * GRANULE), Address(at * GRANULE));
        SurveyedSlot { at, bytes: GRANULE, chain, state, handle: Some(handle), live_bytes, pending_bytes: 0 }
    }

    #[test]
    fn a_handle_that_stays_is_one_stay_and_one_that_moves_is_two() {
        let mut frames = Frames::new(2);
        let surveys = [
            vec![slot(10, 1, GRANULE), slot(11, 2, 0)],
            vec![slot(10, 1, 0), slot(11, 2, 0)],
            vec![slot(10, 1, GRANULE), slot(100, 2, 0)],
        ];
        for (time_us, slots) in (0..).zip(surveys) {
            frames.end(time_us, &Survey { slots, idle: Vec::new() });
        }
        let map = Map::new(&frames, GRANULE);
        assert_eq!(map.runs, [("0x1400000".to_owned(), 2), ("0xc800000".to_owned(), 1)]);
        assert_eq!((map.place.0, map.handle.0), (vec![0, 1, 2], vec![0, 1, 1]));
        assert_eq!((map.first.0, map.last.0), (vec![0, 0, 2], vec![2, 1, 2]));
        assert_eq!(map.live.0, [255, 0, 255, 0, 0, 0]);
    }
}
