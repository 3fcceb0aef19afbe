//! Rights: who may use a mapping, and that what is refused is refused whole.

use crate::rig::{FIRST, Rig, SECOND, refused};
use stitchpool_driver::{DeviceId, ErrorKind, Grant, Rights};

rows!(everywhere:
    rights_cannot_be_set_on_part_of_a_mapping,
    rights_are_given_to_a_whole_run_in_one_call,
    the_same_rights_can_be_given_again,
    reading_needs_no_more_than_the_right_to_read,
    a_second_device_gets_rights_and_the_first_keeps_its_own,
    two_devices_get_rights_in_one_call,
    two_devices_get_rights_over_a_seam_in_any_order,
    the_grown_tail_gets_rights_alone_or_with_the_whole,
);
rows!(host_only:
    a_run_with_a_hole_gets_no_rights,
    a_new_mapping_is_closed,
    a_mapping_that_is_mapped_again_is_closed_again,
    writing_needs_the_right_to_write,
    one_device_of_two_may_only_read,
    an_unknown_device_gets_no_rights_and_nobody_else_in_that_call,
    nobody_named_or_one_named_twice_is_refused,
);

const BOTH: [Grant; 2] =
    [Grant { device: FIRST, rights: Rights::ReadWrite }, Grant { device: SECOND, rights: Rights::ReadWrite }];

fn rights_cannot_be_set_on_part_of_a_mapping(rig: &Rig) {
    let at = rig.stitch(&[FIRST, FIRST], 2);
    for (first, granules) in [(0, 1), (1, 1), (1, 2), (0, 3)] {
        let result = rig.open(at + first * rig.granule, granules, FIRST, Rights::ReadWrite);
        refused(result, &[ErrorKind::InvalidValue]);
    }
}

fn rights_are_given_to_a_whole_run_in_one_call(rig: &Rig) {
    let at = rig.reserve(16);
    for index in 0..16 {
        rig.map(at + index * rig.granule, 1, rig.create(FIRST, 1)).unwrap();
    }
    rig.open(at, 16, FIRST, Rights::ReadWrite).unwrap();
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 16, 2);
    rig.verify(stream, at, 16, 2);
    rig.finish_stream(stream);
    rig.demand_right(16);
}

fn the_same_rights_can_be_given_again(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 4], 1);
    let stream = rig.stream(FIRST);
    for seed in 0..4 {
        rig.fill(stream, at, 4, seed);
        rig.open(at, 4, FIRST, Rights::ReadWrite).unwrap();
        rig.verify(stream, at, 4, seed);
    }
    rig.finish_stream(stream);
    rig.demand_right(16);
}

fn reading_needs_no_more_than_the_right_to_read(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 2);
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 2, 4);
    rig.finish_stream(stream);
    rig.open(at, 2, FIRST, Rights::Read).unwrap();
    rig.verify(stream, at, 2, 4);
    rig.finish_stream(stream);
    rig.demand_right(2);
}

fn a_second_device_gets_rights_and_the_first_keeps_its_own(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    let at = rig.stitch(&[FIRST], 4);
    rig.open(at, 4, SECOND, Rights::Read).unwrap();
    let (first, second) = (rig.stream(FIRST), rig.stream(SECOND));
    rig.fill(first, at, 4, 8);
    rig.wait(second, rig.record(first));
    rig.verify(second, at, 4, 8);
    rig.verify(first, at, 4, 8);
    rig.finish_stream(first);
    rig.finish_stream(second);
    rig.demand_right(8);
}

fn two_devices_get_rights_in_one_call(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    let at = rig.reserve(4);
    rig.map(at, 4, rig.create(SECOND, 4)).unwrap();
    rig.open_all(at, 4, &BOTH).unwrap();
    for (writer, reader, seed) in [(FIRST, SECOND, 1), (SECOND, FIRST, 2)] {
        let (writer, reader) = (rig.stream(writer), rig.stream(reader));
        rig.fill(writer, at, 4, seed);
        rig.wait(reader, rig.record(writer));
        rig.verify(reader, at, 4, seed);
        rig.finish_stream(reader);
    }
    rig.demand_right(8);
}

fn two_devices_get_rights_over_a_seam_in_any_order(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    for order in [[FIRST, SECOND], [SECOND, FIRST]] {
        let at = rig.reserve(4);
        rig.map(at, 2, rig.create(FIRST, 2)).unwrap();
        rig.map(at + 2 * rig.granule, 2, rig.create(SECOND, 2)).unwrap();
        order.iter().for_each(|&device| rig.open(at, 4, device, Rights::ReadWrite).unwrap());
        let [writer, reader] = order.map(|device| rig.stream(device));
        rig.fill(writer, at, 4, 6);
        rig.wait(reader, rig.record(writer));
        rig.verify(reader, at, 4, 6);
        rig.finish_stream(reader);
    }
    rig.demand_right(8);
}

fn the_grown_tail_gets_rights_alone_or_with_the_whole(rig: &Rig) {
    let stream = rig.stream(FIRST);
    for whole in [false, true] {
        let ranges: Vec<_> = (0..3).map(|_| rig.reserve(64)).collect();
        let mut grown = [0; 3];
        for (step, range) in [0, 1, 0, 2, 1, 1, 2, 0, 2].into_iter().enumerate() {
            let granules = [1, 2, 4][step / 3];
            let (start, tail) = (ranges[range], ranges[range] + grown[range] * rig.granule);
            rig.map(tail, granules, rig.create(FIRST, granules)).unwrap();
            grown[range] += granules;
            let (at, opened) = if whole { (start, grown[range]) } else { (tail, granules) };
            rig.open(at, opened, FIRST, Rights::ReadWrite).unwrap();
            rig.fill(stream, start, grown[range], step as u64);
            rig.verify(stream, start, grown[range], step as u64);
        }
    }
    rig.finish_stream(stream);
    assert_eq!((rig.tally().wrong_bytes, rig.tally().faults), (0, Vec::new()));
}

fn a_run_with_a_hole_gets_no_rights(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 3], 1);
    rig.unmap(at + rig.granule, 1).unwrap();
    for (first, granules) in [(0, 3), (0, 2), (1, 1), (1, 2)] {
        let result = rig.open(at + first * rig.granule, granules, FIRST, Rights::Read);
        refused(result, &[ErrorKind::InvalidValue]);
    }
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 1, 1);
    rig.finish_stream(stream);
    assert!(rig.tally().faults.is_empty());
}

#[track_caller]
fn demand_faults(rig: &Rig, count: usize) {
    assert_eq!(rig.tally().faults.len(), count, "{:?}", rig.tally().faults);
}

fn a_new_mapping_is_closed(rig: &Rig) {
    let at = rig.reserve(1);
    rig.map(at, 1, rig.create(FIRST, 1)).unwrap();
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 1, 1);
    rig.verify(stream, at, 1, 1);
    demand_faults(rig, 2);
    assert_eq!(rig.tally().checked_bytes, 0);
}

fn a_mapping_that_is_mapped_again_is_closed_again(rig: &Rig) {
    let (at, handle) = (rig.reserve(1), rig.create(FIRST, 1));
    rig.map(at, 1, handle).unwrap();
    rig.open(at, 1, FIRST, Rights::ReadWrite).unwrap();
    rig.unmap(at, 1).unwrap();
    rig.map(at, 1, handle).unwrap();
    rig.fill(rig.stream(FIRST), at, 1, 1);
    demand_faults(rig, 1);
}

fn writing_needs_the_right_to_write(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 3], 1);
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 3, 1);
    rig.open(at + rig.granule, 1, FIRST, Rights::Read).unwrap();
    rig.fill(stream, at, 3, 2);
    demand_faults(rig, 1);
    rig.verify(stream, at, 3, 1);
    assert_eq!(rig.tally().wrong_bytes, 0);
    rig.open(at, 3, FIRST, Rights::None).unwrap();
    rig.verify(stream, at, 3, 1);
    demand_faults(rig, 2);
}

fn one_device_of_two_may_only_read(rig: &Rig) {
    let at = rig.stitch(&[FIRST, SECOND], 1);
    rig.open(at, 2, SECOND, Rights::Read).unwrap();
    let (first, second) = (rig.stream(FIRST), rig.stream(SECOND));
    rig.fill(first, at, 2, 1);
    rig.wait(second, rig.record(first));
    rig.verify(second, at, 2, 1);
    demand_faults(rig, 0);
    rig.fill(second, at, 2, 2);
    demand_faults(rig, 1);
    rig.open(at, 2, SECOND, Rights::None).unwrap();
    rig.verify(second, at, 2, 1);
    demand_faults(rig, 2);
}

fn an_unknown_device_gets_no_rights_and_nobody_else_in_that_call(rig: &Rig) {
    let at = rig.reserve(1);
    rig.map(at, 1, rig.create(FIRST, 1)).unwrap();
    let known = Grant { device: FIRST, rights: Rights::ReadWrite };
    let unknown = Grant { device: DeviceId(9), ..known };
    refused(rig.open_all(at, 1, &[known, unknown]), &[ErrorKind::InvalidDevice]);
    let host = Grant { device: DeviceId::HOST, ..known };
    refused(rig.open_all(at, 1, &[known, host]), &[ErrorKind::Unreachable]);
    rig.fill(rig.stream(FIRST), at, 1, 1);
    demand_faults(rig, 1);
}

fn nobody_named_or_one_named_twice_is_refused(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 1);
    refused(rig.open_all(at, 1, &[]), &[ErrorKind::InvalidValue]);
    refused(rig.open_all(at, 1, &[BOTH[0], BOTH[0]]), &[ErrorKind::InvalidValue]);
}
