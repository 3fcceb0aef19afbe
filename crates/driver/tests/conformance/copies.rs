//! Copies: within a device, across seams, to host memory and back.

use crate::rig::{FIRST, Rig, SECOND, refused};
use stitchpool_driver::{DeviceId, ErrorKind, Rights};

rows!(everywhere:
    bytes_are_copied_in_stream_order,
    a_copy_crosses_the_seams_of_handles,
    a_copy_crosses_the_seam_of_two_devices,
    bytes_go_to_host_memory_and_come_back,
);
rows!(host_only:
    a_copy_over_the_seam_of_host_and_device_memory_is_refused,
    a_copy_of_what_is_not_mapped_is_refused,
    a_copy_onto_itself_is_refused,
    a_copy_needs_the_right_to_read_and_to_write,
);

fn bytes_are_copied_in_stream_order(rig: &Rig) {
    let (from, to) = (rig.stitch(&[FIRST], 4), rig.stitch(&[FIRST], 4));
    let stream = rig.stream(FIRST);
    for seed in 0..5 {
        rig.fill(stream, from, 4, seed);
        rig.copy(stream, to, from, 4).unwrap();
        rig.fill(stream, from, 4, !seed);
        rig.verify(stream, to, 4, seed);
    }
    rig.finish_stream(stream);
    rig.demand_right(20);
}

fn a_copy_crosses_the_seams_of_handles(rig: &Rig) {
    let (from, to) = (rig.stitch(&[FIRST; 6], 1), rig.stitch(&[FIRST; 3], 2));
    let stream = rig.stream(FIRST);
    rig.fill(stream, from, 6, 1);
    rig.copy(stream, to, from, 6).unwrap();
    rig.verify(stream, to, 6, 1);
    rig.finish_stream(stream);
    rig.demand_right(6);
}

fn a_copy_crosses_the_seam_of_two_devices(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    let (from, to) = (rig.stitch(&[FIRST, SECOND], 2), rig.stitch(&[SECOND, FIRST], 2));
    let stream = rig.stream(SECOND);
    rig.fill(stream, from, 4, 1);
    rig.copy(stream, to, from, 4).unwrap();
    rig.verify(stream, to, 4, 1);
    rig.finish_stream(stream);
    rig.demand_right(4);
}

fn bytes_go_to_host_memory_and_come_back(rig: &Rig) {
    let (device, host) = (rig.stitch(&[FIRST; 2], 2), rig.reserve(4));
    rig.map(host, 4, rig.create(DeviceId::HOST, 4)).unwrap();
    rig.open(host, 4, FIRST, Rights::ReadWrite).unwrap();
    let stream = rig.stream(FIRST);
    rig.fill(stream, device, 4, 1);
    rig.copy(stream, host, device, 4).unwrap();
    rig.fill(stream, device, 4, 2);
    rig.copy(stream, device, host, 4).unwrap();
    rig.verify(stream, device, 4, 1);
    rig.finish_stream(stream);
    rig.demand_right(4);
}

fn a_copy_over_the_seam_of_host_and_device_memory_is_refused(rig: &Rig) {
    let (seam, other) = (rig.reserve(2), rig.stitch(&[FIRST], 2));
    rig.map(seam, 1, rig.create(DeviceId::HOST, 1)).unwrap();
    rig.map(seam + rig.granule, 1, rig.create(FIRST, 1)).unwrap();
    rig.open(seam, 2, FIRST, Rights::ReadWrite).unwrap();
    let stream = rig.stream(FIRST);
    refused(rig.copy(stream, seam, other, 2), &[ErrorKind::InvalidValue]);
    refused(rig.copy(stream, other, seam, 2), &[ErrorKind::InvalidValue]);
    rig.copy(stream, other, seam, 1).unwrap();
}

fn a_copy_of_what_is_not_mapped_is_refused(rig: &Rig) {
    let (mapped, idle) = (rig.stitch(&[FIRST], 1), rig.reserve(1));
    let stream = rig.stream(FIRST);
    refused(rig.copy(stream, idle, mapped, 1), &[ErrorKind::InvalidValue]);
    refused(rig.copy(stream, mapped, idle, 1), &[ErrorKind::InvalidValue]);
}

fn a_copy_onto_itself_is_refused(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 3], 1);
    refused(rig.copy(rig.stream(FIRST), at + rig.granule, at, 2), &[ErrorKind::InvalidValue]);
}

fn a_copy_needs_the_right_to_read_and_to_write(rig: &Rig) {
    let (from, to) = (rig.stitch(&[FIRST], 1), rig.stitch(&[FIRST], 1));
    let stream = rig.stream(FIRST);
    rig.open(from, 1, FIRST, Rights::Read).unwrap();
    rig.copy(stream, to, from, 1).unwrap();
    assert!(rig.tally().faults.is_empty());
    rig.copy(stream, from, to, 1).unwrap();
    rig.open(from, 1, FIRST, Rights::None).unwrap();
    rig.copy(stream, to, from, 1).unwrap();
    assert_eq!(rig.tally().faults.len(), 2, "{:?}", rig.tally().faults);
}
