//! What can be done to a range. Places and lengths are granules; handles are picked by number.

use crate::bench::DEVICES;
use proptest::prelude::*;
use stitchpool_driver::{DeviceId, Grant, Rights};

/// Granules of a range.
pub const RANGE: u64 = 20;

#[derive(Clone, Debug)]
pub enum Call {
    Create { device: u16, granules: u64 },
    DropSpare { pick: usize },
    Stitch { range: usize, place: u64, pieces: Vec<(u16, u64)>, grants: Vec<Grant> },
    Grow { range: usize, pieces: Vec<(u16, u64)>, grants: Vec<Grant> },
    StitchSpares { range: usize, place: u64, picks: Vec<usize>, grants: Vec<Grant> },
    Take { range: usize, place: u64, granules: u64 },
    Shrink { range: usize, granules: u64 },
    Replace { range: usize, place: u64, picks: Vec<usize> },
    Open { range: usize, place: u64, granules: u64, grants: Vec<Grant> },
    Write { range: usize, place: u64, word: u64 },
}

pub fn calls() -> impl Strategy<Value = Vec<Call>> {
    let range = || 0..2_usize;
    let place = || 0..RANGE;
    let granules = || 0..7_u64;
    let pieces = || prop::collection::vec((0..DEVICES, 0..5_u64), 0..4);
    let picks = || prop::collection::vec(any::<usize>(), 0..3);
    let call = prop_oneof![
        2 => (0..DEVICES, 1..4_u64).prop_map(|(device, granules)| Call::Create { device, granules }),
        1 => any::<usize>().prop_map(|pick| Call::DropSpare { pick }),
        3 => (range(), place(), pieces(), grants())
            .prop_map(|(range, place, pieces, grants)| Call::Stitch { range, place, pieces, grants }),
        3 => (range(), pieces(), grants()).prop_map(|(range, pieces, grants)| Call::Grow { range, pieces, grants }),
        4 => (range(), place(), picks(), grants())
            .prop_map(|(range, place, picks, grants)| Call::StitchSpares { range, place, picks, grants }),
        3 => (range(), place(), granules()).prop_map(|(range, place, granules)| Call::Take { range, place, granules }),
        2 => (range(), granules()).prop_map(|(range, granules)| Call::Shrink { range, granules }),
        4 => (range(), place(), picks()).prop_map(|(range, place, picks)| Call::Replace { range, place, picks }),
    ];
    let use_of = prop_oneof![
        1 => (range(), place(), granules(), grants())
            .prop_map(|(range, place, granules, grants)| Call::Open { range, place, granules, grants }),
        2 => (range(), place(), 1..u64::MAX).prop_map(|(range, place, word)| Call::Write { range, place, word }),
    ];
    prop::collection::vec(prop_oneof![3 => call, 2 => use_of], 1..120)
}

/// At most one grant a device; mostly within a group of devices that reach each other.
fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let rights = prop_oneof![1 => Just(Rights::None), 1 => Just(Rights::Read), 4 => Just(Rights::ReadWrite)];
    let mask = prop_oneof![3 => Just(0b0011_u16), 3 => Just(0b1100), 1 => 0..16_u16];
    (mask, prop::collection::vec(rights, usize::from(DEVICES))).prop_map(|(mask, rights)| {
        let all = (0..DEVICES).zip(rights);
        let named = all.filter(|(device, _)| mask >> device & 1 == 1);
        named.map(|(device, rights)| Grant { device: DeviceId(device), rights }).collect()
    })
}
