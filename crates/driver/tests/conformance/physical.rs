//! Physical handles: sizes, places, and how long memory lives.

use crate::rig::{FIRST, Rig, SECOND, refused};
use stitchpool_driver::{DeviceId, ErrorKind, HandleKind, HandleSpec, Rights};

rows!(everywhere:
    devices_are_numbered_from_0_and_told_apart,
    the_granularity_is_a_power_of_two_and_the_same_for_every_kind,
    a_size_of_0_or_of_part_of_a_granule_is_refused,
    an_unknown_device_is_refused,
    more_than_is_free_is_refused_as_out_of_memory,
    a_fabric_handle_is_granted_or_not_permitted,
    fresh_memory_reads_as_zeros,
    memory_created_again_reads_as_zeros,
    free_bytes_fall_by_what_is_created_and_rise_by_what_is_released,
    memory_outlives_its_handle_while_it_is_mapped,
    host_memory_is_a_place_like_any_other,
);
rows!(host_only:
    a_released_handle_cannot_be_mapped,
    a_handle_cannot_be_released_twice,
    all_of_a_device_can_be_created_in_granules_and_not_one_more,
);

fn devices_are_numbered_from_0_and_told_apart(rig: &Rig) {
    let devices = rig.driver.devices().unwrap();
    for (device, ordinal) in devices.iter().zip(0..) {
        assert_eq!(device.id, DeviceId(ordinal));
        assert!(devices[..usize::from(ordinal)].iter().all(|other| other.uuid != device.uuid));
        let memory = rig.driver.memory(device.id).unwrap();
        assert_eq!(memory.total_bytes, device.total_bytes);
        assert!(memory.free_bytes <= memory.total_bytes);
    }
}

fn the_granularity_is_a_power_of_two_and_the_same_for_every_kind(rig: &Rig) {
    for kind in [HandleKind::Private, HandleKind::FileDescriptor, HandleKind::Fabric] {
        let granularity_bytes = rig.driver.granularity(FIRST, kind).unwrap();
        assert!(granularity_bytes.is_power_of_two());
        assert_eq!(granularity_bytes, rig.driver.granularity(FIRST, HandleKind::Private).unwrap());
    }
}

fn a_size_of_0_or_of_part_of_a_granule_is_refused(rig: &Rig) {
    for bytes in [0, 1, rig.granule / 2, rig.granule - 1, rig.granule + rig.granule / 2] {
        for kind in [HandleKind::Private, HandleKind::FileDescriptor] {
            refused(rig.driver.create(HandleSpec { device: FIRST, bytes, kind }), &[ErrorKind::InvalidValue]);
        }
    }
}

fn an_unknown_device_is_refused(rig: &Rig) {
    let device = DeviceId(rig.driver.devices().unwrap().len() as u16);
    let spec = HandleSpec { device, bytes: rig.granule, kind: HandleKind::Private };
    refused(rig.driver.create(spec), &[ErrorKind::InvalidDevice]);
    refused(rig.driver.memory(device), &[ErrorKind::InvalidDevice]);
    refused(rig.driver.link(FIRST, device), &[ErrorKind::InvalidDevice]);
}

fn more_than_is_free_is_refused_as_out_of_memory(rig: &Rig) {
    let bytes = (rig.free_bytes(FIRST) + 1).next_multiple_of(rig.granule);
    let spec = HandleSpec { device: FIRST, bytes, kind: HandleKind::Private };
    refused(rig.driver.create(spec), &[ErrorKind::OutOfMemory]);
}

fn a_fabric_handle_is_granted_or_not_permitted(rig: &Rig) {
    if let Err(error) = rig.create_kind(FIRST, 1, HandleKind::Fabric) {
        assert!(matches!(error.kind, ErrorKind::NotPermitted | ErrorKind::NotSupported), "{error}");
    }
}

fn fresh_memory_reads_as_zeros(rig: &Rig) {
    assert!(rig.read(rig.stitch(&[FIRST], 1)).iter().all(|&byte| byte == 0));
}

fn memory_created_again_reads_as_zeros(rig: &Rig) {
    let at = rig.reserve(1);
    let stream = rig.stream(FIRST);
    for seed in 0..8 {
        let handle = rig.create(FIRST, 1);
        rig.map(at, 1, handle).unwrap();
        rig.open(at, 1, FIRST, Rights::ReadWrite).unwrap();
        assert!(rig.read(at).iter().all(|&byte| byte == 0), "round {seed}");
        rig.fill(stream, at, 1, seed);
        rig.finish_stream(stream);
        rig.unmap(at, 1).unwrap();
        rig.release(handle).unwrap();
    }
}

fn free_bytes_fall_by_what_is_created_and_rise_by_what_is_released(rig: &Rig) {
    let before = rig.free_bytes(FIRST);
    let handles: Vec<_> = (0..32).map(|_| rig.create(FIRST, 4)).collect();
    let between = rig.free_bytes(FIRST);
    assert!(between + 32 * 4 * rig.granule <= before, "{before} bytes were free, now {between}");
    handles.into_iter().for_each(|handle| rig.release(handle).unwrap());
    assert!(rig.free_bytes(FIRST) >= between + 32 * 4 * rig.granule);
}

fn memory_outlives_its_handle_while_it_is_mapped(rig: &Rig) {
    let at = rig.reserve(2);
    let handle = rig.create(FIRST, 2);
    rig.map(at, 2, handle).unwrap();
    rig.open(at, 2, FIRST, Rights::ReadWrite).unwrap();
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 2, 7);
    let mapped = rig.free_bytes(FIRST);
    rig.release(handle).unwrap();
    assert!(rig.free_bytes(FIRST) <= mapped);
    rig.verify(stream, at, 2, 7);
    rig.finish_stream(stream);
    rig.demand_right(2);
    rig.unmap(at, 2).unwrap();
    assert!(rig.free_bytes(FIRST) >= mapped + 2 * rig.granule);
}

fn host_memory_is_a_place_like_any_other(rig: &Rig) {
    let at = rig.reserve(1);
    rig.map(at, 1, rig.create(DeviceId::HOST, 1)).unwrap();
    rig.open(at, 1, FIRST, Rights::ReadWrite).unwrap();
    let stream = rig.stream(FIRST);
    rig.fill(stream, at, 1, 3);
    rig.verify(stream, at, 1, 3);
    rig.finish_stream(stream);
    rig.demand_right(1);
    assert!(rig.driver.memory(DeviceId::HOST).unwrap().total_bytes >= rig.granule);
}

fn a_released_handle_cannot_be_mapped(rig: &Rig) {
    let (at, handle) = (rig.reserve(1), rig.create(FIRST, 1));
    rig.release(handle).unwrap();
    refused(rig.map(at, 1, handle), &[ErrorKind::InvalidValue]);
}

fn a_handle_cannot_be_released_twice(rig: &Rig) {
    let (at, handle) = (rig.reserve(1), rig.create(FIRST, 1));
    rig.map(at, 1, handle).unwrap();
    rig.release(handle).unwrap();
    refused(rig.release(handle), &[ErrorKind::InvalidValue]);
}

fn all_of_a_device_can_be_created_in_granules_and_not_one_more(rig: &Rig) {
    let granules = rig.free_bytes(SECOND) / rig.granule;
    for _ in 0..granules {
        rig.create(SECOND, 1);
    }
    assert_eq!(rig.free_bytes(SECOND), 0);
    refused(rig.create_kind(SECOND, 1, HandleKind::Private), &[ErrorKind::OutOfMemory]);
    rig.create(FIRST, 1);
}
