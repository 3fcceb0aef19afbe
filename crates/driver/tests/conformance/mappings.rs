//! Mappings: what may stand where, aliases, and how mappings go.

use crate::rig::{FIRST, Rig, refused};
use stitchpool_driver::{Address, ErrorKind, RawHandle, Rights};

rows!(everywhere:
    part_of_a_handle_cannot_be_mapped,
    an_unaligned_address_is_refused,
    a_mapping_cannot_lie_over_another,
    part_of_a_mapping_cannot_be_unmapped,
    a_run_of_mappings_is_unmapped_in_one_call,
    a_run_in_the_middle_is_unmapped_and_its_neighbours_stay,
    a_handle_stands_at_several_addresses_with_the_same_bytes,
    the_bytes_of_a_handle_move_with_it_to_another_address,
);
rows!(host_only:
    a_mapping_lies_in_one_reservation,
    a_run_with_a_hole_cannot_be_unmapped,
    a_handle_that_never_was_cannot_be_mapped,
    a_refused_call_leaves_everything_as_it_was,
);

fn part_of_a_handle_cannot_be_mapped(rig: &Rig) {
    let (at, handle) = (rig.reserve(4), rig.create(FIRST, 2));
    refused(rig.map(at, 1, handle), &[ErrorKind::NotSupported, ErrorKind::InvalidValue]);
    rig.map(at, 2, handle).unwrap();
}

fn an_unaligned_address_is_refused(rig: &Rig) {
    let (at, handle) = (rig.reserve(4), rig.create(FIRST, 2));
    refused(rig.map(at + rig.granule / 2, 2, handle), &[ErrorKind::InvalidValue]);
}

fn a_mapping_cannot_lie_over_another(rig: &Rig) {
    let at = rig.reserve(6);
    rig.map(at + 2 * rig.granule, 2, rig.create(FIRST, 2)).unwrap();
    let other = rig.create(FIRST, 2);
    for granules in [1, 2, 3] {
        refused(rig.map(at + granules * rig.granule, 2, other), &[ErrorKind::InvalidValue]);
    }
    rig.map(at, 2, other).unwrap();
    rig.map(at + 4 * rig.granule, 2, rig.create(FIRST, 2)).unwrap();
}

fn part_of_a_mapping_cannot_be_unmapped(rig: &Rig) {
    let at = rig.stitch(&[FIRST, FIRST], 2);
    for (first, granules) in [(0, 1), (1, 1), (1, 2), (0, 3), (1, 3)] {
        refused(rig.unmap(at + first * rig.granule, granules), &[ErrorKind::InvalidValue]);
    }
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 4, 1);
    rig.verify(stream, at, 4, 1);
    rig.finish_stream(stream);
    rig.demand_right(4);
}

fn a_run_of_mappings_is_unmapped_in_one_call(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 8], 1);
    rig.unmap(at, 8).unwrap();
    rig.map(at, 8, rig.create(FIRST, 8)).unwrap();
}

fn a_run_in_the_middle_is_unmapped_and_its_neighbours_stay(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 8], 1);
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 8, 5);
    rig.finish_stream(stream);
    rig.unmap(at + 3 * rig.granule, 2).unwrap();
    rig.verify(stream, at, 3, 5);
    rig.finish_stream(stream);
    rig.demand_right(3);
    rig.map(at + 3 * rig.granule, 2, rig.create(FIRST, 2)).unwrap();
    rig.open(at + 3 * rig.granule, 2, FIRST, Rights::ReadWrite).unwrap();
    rig.fill(stream, at, 8, 6);
    rig.verify(stream, at, 8, 6);
    rig.finish_stream(stream);
    rig.demand_right(11);
}

fn a_handle_stands_at_several_addresses_with_the_same_bytes(rig: &Rig) {
    let handle = rig.create(FIRST, 1);
    let aliases: Vec<Address> = (0..4).map(|_| rig.reserve(1)).collect();
    for &at in &aliases {
        rig.map(at, 1, handle).unwrap();
        rig.open(at, 1, FIRST, Rights::ReadWrite).unwrap();
    }
    let stream = rig.stream(FIRST);
    for (&written, seed) in aliases.iter().zip(0..) {
        rig.fill(stream, written, 1, seed);
        aliases.iter().for_each(|&read| rig.verify(stream, read, 1, seed));
    }
    rig.finish_stream(stream);
    rig.demand_right(16);
    rig.unmap(aliases[0], 1).unwrap();
    rig.verify(stream, aliases[1], 1, 3);
    rig.finish_stream(stream);
    rig.demand_right(17);
}

fn the_bytes_of_a_handle_move_with_it_to_another_address(rig: &Rig) {
    let handle = rig.create(FIRST, 3);
    let stream = rig.stream(FIRST);
    for round in 0..3 {
        let at = rig.reserve(3);
        rig.map(at, 3, handle).unwrap();
        rig.open(at, 3, FIRST, Rights::ReadWrite).unwrap();
        if round == 0 {
            rig.fill(stream, at, 3, 11);
        }
        rig.verify(stream, at, 3, 11);
        rig.finish_stream(stream);
        rig.unmap(at, 3).unwrap();
    }
    rig.demand_right(9);
}

fn a_mapping_lies_in_one_reservation(rig: &Rig) {
    let (at, handle) = (rig.reserve(2), rig.create(FIRST, 2));
    for start in [at + rig.granule, at + 2 * rig.granule, Address(at.0 - rig.granule), Address(0)] {
        refused(rig.map(start, 2, handle), &[ErrorKind::InvalidValue]);
    }
}

fn a_run_with_a_hole_cannot_be_unmapped(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 4], 1);
    rig.unmap(at + rig.granule, 1).unwrap();
    for (first, granules) in [(0, 4), (0, 2), (1, 2), (1, 1), (1, 0)] {
        refused(rig.unmap(at + first * rig.granule, granules), &[ErrorKind::InvalidValue]);
    }
    rig.unmap(at, 1).unwrap();
    rig.unmap(at + 2 * rig.granule, 2).unwrap();
}

fn a_handle_that_never_was_cannot_be_mapped(rig: &Rig) {
    refused(rig.map(rig.reserve(1), 1, RawHandle(4711)), &[ErrorKind::InvalidValue]);
}

fn a_refused_call_leaves_everything_as_it_was(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 2], 1);
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 2, 9);
    refused(rig.unmap(at, 3), &[ErrorKind::InvalidValue]);
    refused(rig.open(at, 3, FIRST, Rights::None), &[ErrorKind::InvalidValue]);
    refused(rig.map(at, 1, rig.create(FIRST, 1)), &[ErrorKind::InvalidValue]);
    rig.verify(stream, at, 2, 9);
    rig.finish_stream(stream);
    rig.demand_right(2);
}
