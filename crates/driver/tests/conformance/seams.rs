//! Ranges stitched from many handles and several devices, used as one.

use crate::rig::{FIRST, Rig, SECOND};
use stitchpool_driver::{DeviceId, Rights};

rows!(everywhere:
    a_range_of_many_shuffled_handles_is_one_buffer,
    a_range_over_two_devices_is_one_buffer_to_both,
    a_range_with_a_half_on_each_device_is_one_buffer_to_both,
    memory_is_replaced_under_a_range_that_stays,
    handles_are_restitched_through_aliases_in_stream_order,
);

fn a_range_of_many_shuffled_handles_is_one_buffer(rig: &Rig) {
    let handles: Vec<_> = (0..128).map(|_| rig.create(FIRST, 1)).collect();
    let at = rig.reserve(128);
    for index in 0..128 {
        rig.map(at + index * rig.granule, 1, handles[(index * 77 % 128) as usize]).unwrap();
    }
    rig.open(at, 128, FIRST, Rights::ReadWrite).unwrap();
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 128, 13);
    rig.verify(stream, at, 128, 13);
    rig.finish_stream(stream);
    rig.demand_right(128);
}

fn a_range_over_two_devices_is_one_buffer_to_both(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    let striped: Vec<DeviceId> = (0..16).map(|index| DeviceId(index % 2)).collect();
    for devices in [&[FIRST, SECOND][..], &striped] {
        let granules = 32 / devices.len() as u64;
        let at = rig.stitch(devices, granules);
        let before = rig.tally().checked_bytes;
        for (writer, reader, seed) in [(FIRST, SECOND, 1), (SECOND, FIRST, 2)] {
            let (writer, reader) = (rig.stream(writer), rig.stream(reader));
            rig.fill(writer, at, 32, seed);
            rig.wait(reader, rig.record(writer));
            rig.verify(reader, at, 32, seed);
            rig.verify(writer, at, 32, seed);
            rig.finish_stream(reader);
            rig.finish_stream(writer);
        }
        let found = rig.tally();
        assert_eq!((found.checked_bytes - before, found.wrong_bytes), (128 * rig.granule, 0));
    }
}

fn a_range_with_a_half_on_each_device_is_one_buffer_to_both(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    // 1 GiB on GPUs; the host driver's kernels are slow.
    let half = if rig.driver.name() == "cuda" { 256 } else { 16 };
    let at = rig.stitch(&[FIRST, SECOND], half);
    let whole = 2 * half;
    let streams = [rig.stream(FIRST), rig.stream(SECOND)];
    for (seed, (writer, reader)) in [(0, 1), (1, 0)].into_iter().enumerate() {
        rig.fill(streams[writer], at, whole, seed as u64);
        rig.wait(streams[reader], rig.record(streams[writer]));
        rig.verify(streams[reader], at, whole, seed as u64);
        rig.verify(streams[writer], at, whole, seed as u64);
        streams.iter().for_each(|&stream| rig.finish_stream(stream));
    }
    rig.demand_right(4 * whole);
}

fn memory_is_replaced_under_a_range_that_stays(rig: &Rig) {
    let at = rig.stitch(&[FIRST; 8], 1);
    let stream = rig.stream(FIRST);
    for seed in 0..4 {
        rig.fill(stream, at, 8, seed);
        rig.verify(stream, at, 8, seed);
        rig.finish_stream(stream);
        let middle = at + 2 * rig.granule;
        rig.unmap(middle, 4).unwrap();
        for index in 0..4 {
            rig.map(middle + index * rig.granule, 1, rig.create(FIRST, 1)).unwrap();
        }
        rig.open(middle, 4, FIRST, Rights::ReadWrite).unwrap();
        rig.verify(stream, at, 2, seed);
    }
    rig.finish_stream(stream);
    rig.demand_right(40);
}

fn handles_are_restitched_through_aliases_in_stream_order(rig: &Rig) {
    const HANDLES: u64 = 16;
    let handles: Vec<_> = (0..HANDLES).map(|_| rig.create(FIRST, 1)).collect();
    let stream = rig.stream(FIRST);
    let mut stale = None;
    for round in 0..20 {
        let at = rig.reserve(HANDLES);
        for index in 0..HANDLES {
            let handle = handles[((index * 7 + round * 3) % HANDLES) as usize];
            rig.map(at + index * rig.granule, 1, handle).unwrap();
        }
        rig.open(at, HANDLES, FIRST, Rights::ReadWrite).unwrap();
        rig.fill(stream, at, HANDLES, round);
        rig.verify(stream, at, HANDLES, round);
        let event = rig.record(stream);
        // The mapping before this one is unmapped only now, once its work is done.
        if let Some((gone, done)) = stale.replace((at, event)) {
            rig.finish(done, crate::rig::PATIENCE).unwrap();
            rig.unmap(gone, HANDLES).unwrap();
        }
    }
    rig.finish_stream(stream);
    rig.demand_right(20 * HANDLES);
}
