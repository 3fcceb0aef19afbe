//! Random verbs, right and wrong, against a simple shadow of the ledger: the driver takes a call iff
//! the shadow does, and both agree on what is left and on every byte.

use crate::bench::{Bench, FIRST, GRANULE, config};
use proptest::prelude::*;
use std::collections::BTreeMap;
use stitchpool_driver::host::{HostConfig, HostDevice};
use stitchpool_driver::{Address, RawHandle, Rights};

const CAPACITY_GRANULES: u64 = 24;
const RANGE_GRANULES: u64 = 12;

/// One call; places are granules within the one range, handles are picked by index.
#[derive(Clone, Debug)]
enum Call {
    Create { granules: u64 },
    Release { pick: usize },
    Map { place: u64, pick: usize },
    Unmap { place: u64, granules: u64 },
    Open { place: u64, granules: u64, rights: Rights },
    Write { place: u64, byte: u8 },
    Read { place: u64 },
}

/// What the ledger should say, written for clarity alone.
#[derive(Default)]
struct Shadow {
    /// Every handle ever made: its granules, and whether it lives.
    handles: Vec<(RawHandle, u64, bool)>,
    /// First granule of each mapping: its handle's index and the rights.
    mappings: BTreeMap<u64, (usize, Rights)>,
    /// The first byte of each granule of each handle.
    bytes: BTreeMap<(usize, u64), u8>,
}

impl Shadow {
    fn granules(&self, index: usize) -> u64 {
        self.handles[index].1
    }

    fn used_granules(&self) -> u64 {
        let is_used = |index: &usize| self.handles[*index].2 || self.mappings.values().any(|(used, _)| used == index);
        (0..self.handles.len()).filter(is_used).map(|index| self.granules(index)).sum()
    }

    /// The mapping over a granule: where it starts, the handle's index, the rights.
    fn over(&self, granule: u64) -> Option<(u64, usize, Rights)> {
        let (&start, &(index, rights)) = self.mappings.range(..=granule).next_back()?;
        (granule < start + self.granules(index)).then_some((start, index, rights))
    }

    fn is_run(&self, place: u64, granules: u64) -> bool {
        let end = place + granules;
        let covered = (place..end).all(|granule| self.over(granule).is_some());
        let is_border = |at: u64| at == 0 || self.over(at).is_none_or(|(start, ..)| start == at);
        granules > 0 && end <= RANGE_GRANULES && covered && is_border(place) && is_border(end)
    }
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let rights = prop_oneof![Just(Rights::None), Just(Rights::Read), Just(Rights::ReadWrite)];
    let place = 0..RANGE_GRANULES;
    let call = prop_oneof![
        2 => (0..4_u64).prop_map(|granules| Call::Create { granules }),
        1 => any::<usize>().prop_map(|pick| Call::Release { pick }),
        4 => (place.clone(), any::<usize>()).prop_map(|(place, pick)| Call::Map { place, pick }),
        2 => (place.clone(), 0..5_u64).prop_map(|(place, granules)| Call::Unmap { place, granules }),
        4 => (place.clone(), 0..5_u64, rights)
            .prop_map(|(place, granules, rights)| Call::Open { place, granules, rights }),
        3 => (place.clone(), any::<u8>()).prop_map(|(place, byte)| Call::Write { place, byte }),
        3 => place.prop_map(|place| Call::Read { place }),
    ];
    prop::collection::vec(call, 1..120)
}

/// Makes one call on both, and says whether each took it.
fn step(bench: &Bench, shadow: &mut Shadow, range: Address, call: &Call) -> (bool, bool) {
    let at = |place: u64| range + place * GRANULE;
    let pick = |pick: usize, shadow: &Shadow| (!shadow.handles.is_empty()).then(|| pick % shadow.handles.len());
    match *call {
        Call::Create { granules } => {
            let right = granules > 0 && shadow.used_granules() + granules <= CAPACITY_GRANULES;
            let made = bench.create(granules);
            if let Ok(handle) = made {
                shadow.handles.push((handle, granules, true));
            }
            (made.is_ok(), right)
        }
        Call::Release { pick: wanted } => {
            let Some(index) = pick(wanted, shadow) else { return (true, true) };
            let right = std::mem::replace(&mut shadow.handles[index].2, false);
            (bench.release(shadow.handles[index].0).is_ok(), right)
        }
        Call::Map { place, pick: wanted } => {
            let Some(index) = pick(wanted, shadow) else { return (true, true) };
            let (handle, granules, lives) = shadow.handles[index];
            let fits = place + granules <= RANGE_GRANULES;
            let right = lives && fits && (place..place + granules).all(|granule| shadow.over(granule).is_none());
            if right {
                shadow.mappings.insert(place, (index, Rights::None));
            }
            (bench.map(at(place), granules, handle).is_ok(), right)
        }
        Call::Unmap { place, granules } => {
            let right = shadow.is_run(place, granules);
            if right {
                shadow.mappings.retain(|&start, _| start < place || start >= place + granules);
            }
            (bench.unmap(at(place), granules).is_ok(), right)
        }
        Call::Open { place, granules, rights } => {
            let right = shadow.is_run(place, granules);
            if right {
                shadow.mappings.range_mut(place..place + granules).for_each(|(_, mapping)| mapping.1 = rights);
            }
            (bench.open(at(place), granules, rights).is_ok(), right)
        }
        Call::Write { place, byte } => {
            let found = shadow.over(place).filter(|&(.., rights)| rights == Rights::ReadWrite);
            if let Some((start, index, _)) = found {
                shadow.bytes.insert((index, place - start), byte);
            }
            (bench.0.poke(at(place), &[byte]).is_ok(), found.is_some())
        }
        Call::Read { place } => {
            let found = shadow.over(place).filter(|&(.., rights)| rights != Rights::None);
            let mut read = [0];
            let taken = bench.0.peek(at(place), &mut read).is_ok();
            if let (true, Some((start, index, _))) = (taken, found) {
                let expected = shadow.bytes.get(&(index, place - start)).copied().unwrap_or(0);
                assert_eq!(read[0], expected, "handle {index}, granule {}", place - start);
            }
            (taken, found.is_some())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_verbs_agree_with_a_simple_ledger(calls in calls()) {
        let device = HostDevice { capacity_bytes: CAPACITY_GRANULES * GRANULE, granularity_bytes: GRANULE };
        let bench = Bench::new(HostConfig { devices: vec![device], ..config() });
        let range = bench.reserve(RANGE_GRANULES);
        let mut shadow = Shadow::default();
        for call in &calls {
            let (taken, right) = step(&bench, &mut shadow, range, call);
            prop_assert_eq!(taken, right, "{:?}: {:?}", call, bench.0.ledger().last_refusal);
            let ledger = bench.0.ledger();
            prop_assert_eq!(ledger.mappings, shadow.mappings.len() as u64);
            prop_assert_eq!(ledger.physical_bytes_on(FIRST), shadow.used_granules() * GRANULE);
        }
        for (&place, &(index, _)) in &shadow.mappings {
            bench.unmap(range + place * GRANULE, shadow.granules(index)).unwrap();
        }
        shadow.handles.iter().filter(|handle| handle.2).for_each(|handle| bench.release(handle.0).unwrap());
        bench.unreserve(range, RANGE_GRANULES).unwrap();
        prop_assert!(bench.0.ledger().is_empty());
    }
}
