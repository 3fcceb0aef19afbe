//! Bytes that the process sets, reads and writes itself, and its wait for all of a device.

use crate::rig::{FIRST, Rig, SECOND, refused};
use stitchpool_driver::{DeviceId, ErrorKind, RawStream, Rights, pattern_word};

rows!(everywhere:
    bytes_are_set_in_stream_order,
    a_memset_crosses_the_seam_of_two_handles,
    a_memset_crosses_the_seam_of_two_devices,
    a_memset_sets_what_is_no_multiple_of_anything,
    the_process_reads_what_a_stream_has_written,
    a_stream_reads_what_the_process_has_written,
    the_process_reads_and_writes_through_any_device_that_may,
    synchronize_waits_for_every_stream_of_the_device,
    synchronize_where_nothing_is_queued_is_no_error,
);
rows!(host_only:
    a_memset_of_what_is_not_mapped_is_refused,
    reading_and_writing_what_is_not_mapped_is_refused,
    reading_and_writing_without_the_right_is_refused,
    bytes_over_the_seam_of_host_and_device_memory_are_refused,
    synchronize_of_an_unknown_device_is_refused,
);

/// The bytes of a pattern from its word `first` on.
fn pattern(seed: u64, first: u64, bytes: u64) -> Vec<u8> {
    (first..first + bytes / 8).flat_map(|index| pattern_word(seed, index).to_le_bytes()).collect()
}

fn bytes_are_set_in_stream_order(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 2);
    let stream = rig.stream(FIRST);
    for value in 1..=5 {
        rig.fill(stream, at, 2, u64::from(value));
        rig.verify(stream, at, 2, u64::from(value));
        rig.memset(stream, at, rig.granule, value).unwrap();
    }
    rig.finish_stream(stream);
    rig.demand_right(10);
    assert!(rig.bytes(FIRST, at, rig.granule).unwrap().iter().all(|&byte| byte == 5));
    assert_eq!(rig.bytes(FIRST, at + rig.granule, 64).unwrap(), pattern(5, rig.granule / 8, 64), "and not beyond");
}

fn a_memset_crosses_the_seam_of_two_handles(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 3], 1);
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 3, 1);
    rig.memset(stream, at + rig.granule / 2, 2 * rig.granule, 0xA5).unwrap();
    rig.finish_stream(stream);
    let found = rig.bytes(FIRST, at, 3 * rig.granule).unwrap();
    let half = rig.granule as usize / 2;
    assert_eq!(found[..half], pattern(1, 0, rig.granule / 2));
    assert!(found[half..5 * half].iter().all(|&byte| byte == 0xA5));
    assert_eq!(found[5 * half..], pattern(1, 5 * rig.granule / 16, rig.granule / 2));
}

fn a_memset_crosses_the_seam_of_two_devices(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    let at = rig.stitch(&[FIRST, SECOND], 1);
    let stream = rig.stream(SECOND);
    rig.memset(stream, at, 2 * rig.granule, 7).unwrap();
    rig.finish_stream(stream);
    assert!(rig.bytes(FIRST, at, 2 * rig.granule).unwrap().iter().all(|&byte| byte == 7));
}

fn a_memset_sets_what_is_no_multiple_of_anything(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 1);
    let stream = rig.stream(FIRST);
    rig.memset(stream, at, 64, 1).unwrap();
    rig.memset(stream, at + 3, 7, 2).unwrap();
    rig.finish_stream(stream);
    let found = rig.bytes(FIRST, at, 12).unwrap();
    assert_eq!(found, [1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 1, 1]);
}

fn the_process_reads_what_a_stream_has_written(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 2], 1);
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 2, 9);
    rig.finish_stream(stream);
    assert_eq!(rig.bytes(FIRST, at, 2 * rig.granule).unwrap(), pattern(9, 0, 2 * rig.granule));
    let seam = rig.bytes(FIRST, at + (rig.granule - 64), 128).unwrap();
    assert_eq!(seam, pattern(9, rig.granule / 8 - 8, 128));
}

fn a_stream_reads_what_the_process_has_written(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 2], 1);
    let stream = rig.stream(FIRST);
    for seed in 0..3 {
        rig.put(FIRST, at, &pattern(seed, 0, 2 * rig.granule)).unwrap();
        rig.verify(stream, at, 2, seed);
        rig.finish_stream(stream);
    }
    rig.demand_right(6);
}

fn the_process_reads_and_writes_through_any_device_that_may(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    let at = rig.stitch(&[FIRST, SECOND], 1);
    for (writer, reader, seed) in [(FIRST, SECOND, 1), (SECOND, FIRST, 2)] {
        rig.put(writer, at, &pattern(seed, 0, 2 * rig.granule)).unwrap();
        assert_eq!(rig.bytes(reader, at, 2 * rig.granule).unwrap(), pattern(seed, 0, 2 * rig.granule));
    }
}

fn synchronize_waits_for_every_stream_of_the_device(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 4], 1);
    let default = RawStream { device: FIRST, value: 0 };
    let streams = [default, rig.stream(FIRST), rig.stream(FIRST)];
    let place = |index: u64| at + index * rig.granule;
    for (&stream, index) in streams.iter().zip(0..) {
        rig.delay(stream, 20_000);
        rig.fill(stream, place(index), 1, index);
    }
    // What a destroyed stream has queued counts too.
    let gone = rig.stream(FIRST);
    rig.delay(gone, 20_000);
    rig.fill(gone, place(3), 1, 3);
    rig.destroy(gone);
    rig.synchronize(FIRST).unwrap();
    for index in 0..4 {
        assert_eq!(rig.bytes(FIRST, place(index), rig.granule).unwrap(), pattern(index, 0, rig.granule));
    }
}

fn synchronize_where_nothing_is_queued_is_no_error(rig: &Rig) {
    let devices = rig.driver.devices().unwrap();
    devices.iter().for_each(|device| rig.synchronize(device.id).unwrap());
    rig.synchronize(DeviceId::HOST).unwrap();
}

fn a_memset_of_what_is_not_mapped_is_refused(rig: &Rig) {
    let (at, idle) = (rig.stitch(&[FIRST], 1), rig.reserve(1));
    let stream = rig.stream(FIRST);
    refused(rig.memset(stream, idle, 64, 1), &[ErrorKind::InvalidValue]);
    refused(rig.memset(stream, at + 64, rig.granule, 1), &[ErrorKind::InvalidValue]);
}

fn reading_and_writing_what_is_not_mapped_is_refused(rig: &Rig) {
    let (at, idle) = (rig.stitch(&[FIRST], 1), rig.reserve(1));
    for (at, bytes) in [(idle, 64), (at + (rig.granule - 64), 128)] {
        refused(rig.bytes(FIRST, at, bytes), &[ErrorKind::InvalidValue, ErrorKind::IllegalAddress]);
        let zeros = vec![0; bytes as usize];
        refused(rig.put(FIRST, at, &zeros), &[ErrorKind::InvalidValue, ErrorKind::IllegalAddress]);
    }
}

fn reading_and_writing_without_the_right_is_refused(rig: &Rig) {
    let at = rig.stitch(&[FIRST], 1);
    refused(rig.bytes(SECOND, at, 8), &[ErrorKind::IllegalAddress]);
    refused(rig.put(SECOND, at, &[1; 8]), &[ErrorKind::IllegalAddress]);
    rig.open(at, 1, FIRST, Rights::Read).unwrap();
    rig.bytes(FIRST, at, 8).unwrap();
    refused(rig.put(FIRST, at, &[1; 8]), &[ErrorKind::IllegalAddress]);
}

fn bytes_over_the_seam_of_host_and_device_memory_are_refused(rig: &Rig) {
    let seam = rig.reserve(2);
    rig.map(seam, 1, rig.create(DeviceId::HOST, 1)).unwrap();
    rig.map(seam + rig.granule, 1, rig.create(FIRST, 1)).unwrap();
    rig.open(seam, 2, FIRST, Rights::ReadWrite).unwrap();
    let across = seam + (rig.granule - 8);
    refused(rig.memset(rig.stream(FIRST), across, 16, 1), &[ErrorKind::InvalidValue]);
    refused(rig.bytes(FIRST, across, 16), &[ErrorKind::InvalidValue]);
    refused(rig.put(FIRST, across, &[1; 16]), &[ErrorKind::InvalidValue]);
    rig.put(FIRST, across, &[1; 8]).unwrap();
}

fn synchronize_of_an_unknown_device_is_refused(rig: &Rig) {
    refused(rig.synchronize(DeviceId(77)), &[ErrorKind::InvalidDevice]);
}
