//! Reservations: sizes, alignment, limits, and how they are given back.

use crate::rig::{FIRST, Rig, refused};
use stitchpool_driver::{Address, ErrorKind};

rows!(everywhere:
    a_reservation_of_0_or_of_part_of_a_granule_is_refused,
    alignment_is_honoured,
    more_addresses_than_there_are_cannot_be_reserved,
    a_reservation_is_given_back_whole_and_once,
    a_reservation_is_not_given_back_while_something_is_mapped,
);
rows!(host_only: an_alignment_that_is_no_power_of_two_is_refused, two_reservations_are_not_given_back_as_one);

fn a_reservation_of_0_or_of_part_of_a_granule_is_refused(rig: &Rig) {
    for bytes in [0, rig.granule / 2, rig.granule + rig.granule / 2] {
        refused(rig.driver.reserve(bytes, 0), &[ErrorKind::InvalidValue]);
    }
}

fn alignment_is_honoured(rig: &Rig) {
    for alignment in [0, rig.granule, 64 << 20, 1 << 30] {
        let at = rig.driver.reserve(3 * rig.granule, alignment).unwrap();
        assert!(at.is_aligned(alignment.max(rig.granule)), "{at} for an alignment of {alignment}");
        rig.unreserve(at, 3 * rig.granule).unwrap();
    }
}

fn more_addresses_than_there_are_cannot_be_reserved(rig: &Rig) {
    const TIB: u64 = 1 << 40;
    // 64 TiB at once work on the measured card, and on the host where no other test holds as many.
    let at = rig.driver.reserve(16 * TIB, 0).unwrap();
    refused(rig.driver.reserve(128 * TIB, 0), &[ErrorKind::OutOfResources]);
    rig.unreserve(at, 16 * TIB).unwrap();
}

fn a_reservation_is_given_back_whole_and_once(rig: &Rig) {
    let at = rig.reserve(4);
    let bytes = 4 * rig.granule;
    for (start, length) in [(at, bytes / 2), (at + bytes / 2, bytes / 2), (at + rig.granule, bytes)] {
        refused(rig.unreserve(start, length), &[ErrorKind::InvalidValue]);
    }
    rig.unreserve(at, bytes).unwrap();
    refused(rig.unreserve(at, bytes), &[ErrorKind::InvalidValue]);
}

fn a_reservation_is_not_given_back_while_something_is_mapped(rig: &Rig) {
    let at = rig.reserve(2);
    rig.map(at + rig.granule, 1, rig.create(FIRST, 1)).unwrap();
    refused(rig.unreserve(at, 2 * rig.granule), &[ErrorKind::InvalidValue]);
    rig.unmap(at + rig.granule, 1).unwrap();
    rig.unreserve(at, 2 * rig.granule).unwrap();
}

fn an_alignment_that_is_no_power_of_two_is_refused(rig: &Rig) {
    refused(rig.driver.reserve(rig.granule, 3 * rig.granule), &[ErrorKind::InvalidValue]);
}

fn two_reservations_are_not_given_back_as_one(rig: &Rig) {
    let mut all: Vec<Address> = (0..16).map(|_| rig.reserve(1)).collect();
    all.sort();
    let neighbours = all.windows(2).find(|pair| pair[0] + rig.granule == pair[1]);
    let at = neighbours.map_or(all[0], |pair| pair[0]);
    refused(rig.unreserve(at, 2 * rig.granule), &[ErrorKind::InvalidValue]);
}
