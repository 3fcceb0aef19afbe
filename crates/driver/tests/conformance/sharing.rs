//! Export and import by file descriptor.

use crate::rig::{FIRST, Rig, SECOND, refused};
use std::os::fd::AsFd;
use stitchpool_driver::{ErrorKind, HandleKind, HandleSpec, Rights};

rows!(everywhere:
    an_imported_handle_has_the_exporters_bytes,
    imported_memory_outlives_the_exporters_handle,
    a_second_device_uses_imported_memory,
    a_private_handle_cannot_be_exported,
);
rows!(host_only: an_import_must_say_the_size_and_kind, importing_costs_the_device_nothing);

fn shared(rig: &Rig, granules: u64) -> HandleSpec {
    HandleSpec { device: FIRST, bytes: granules * rig.granule, kind: HandleKind::FileDescriptor }
}

fn an_imported_handle_has_the_exporters_bytes(rig: &Rig) {
    let handle = rig.create_kind(FIRST, 2, HandleKind::FileDescriptor).unwrap();
    // SAFETY: the handle was made just now.
    let descriptor = unsafe { rig.driver.export(handle) }.unwrap();
    let imported = rig.adopt(rig.driver.import(descriptor.as_fd(), shared(rig, 2)).unwrap());
    let (here, there) = (rig.reserve(2), rig.reserve(2));
    for (at, handle) in [(here, handle), (there, imported)] {
        rig.map(at, 2, handle).unwrap();
        rig.open(at, 2, FIRST, Rights::ReadWrite).unwrap();
    }
    let stream = rig.stream(FIRST);
    rig.fill(stream, here, 2, 1);
    rig.verify(stream, there, 2, 1);
    rig.fill(stream, there, 2, 2);
    rig.verify(stream, here, 2, 2);
    rig.finish_stream(stream);
    rig.demand_right(4);
}

fn imported_memory_outlives_the_exporters_handle(rig: &Rig) {
    let (at, stream) = (rig.reserve(1), rig.stream(FIRST));
    let handle = rig.create_kind(FIRST, 1, HandleKind::FileDescriptor).unwrap();
    rig.map(at, 1, handle).unwrap();
    rig.open(at, 1, FIRST, Rights::ReadWrite).unwrap();
    rig.fill(stream, at, 1, 5);
    rig.finish_stream(stream);
    // SAFETY: the handle lives.
    let descriptor = unsafe { rig.driver.export(handle) }.unwrap();
    let imported = rig.adopt(rig.driver.import(descriptor.as_fd(), shared(rig, 1)).unwrap());
    rig.unmap(at, 1).unwrap();
    rig.release(handle).unwrap();
    rig.map(at, 1, imported).unwrap();
    rig.open(at, 1, FIRST, Rights::Read).unwrap();
    rig.verify(stream, at, 1, 5);
    rig.finish_stream(stream);
    rig.demand_right(1);
}

fn a_second_device_uses_imported_memory(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    let handle = rig.create_kind(FIRST, 1, HandleKind::FileDescriptor).unwrap();
    // SAFETY: the handle was made just now.
    let descriptor = unsafe { rig.driver.export(handle) }.unwrap();
    let (at, stream) = (rig.reserve(1), rig.stream(SECOND));
    rig.map(at, 1, rig.adopt(rig.driver.import(descriptor.as_fd(), shared(rig, 1)).unwrap())).unwrap();
    rig.open(at, 1, SECOND, Rights::ReadWrite).unwrap();
    rig.fill(stream, at, 1, 1);
    rig.verify(stream, at, 1, 1);
    rig.finish_stream(stream);
    rig.demand_right(1);
}

fn a_private_handle_cannot_be_exported(rig: &Rig) {
    let handle = rig.create(FIRST, 1);
    // SAFETY: the handle was made just now.
    assert!(unsafe { rig.driver.export(handle) }.is_err());
}

fn an_import_must_say_the_size_and_kind(rig: &Rig) {
    let handle = rig.create_kind(FIRST, 2, HandleKind::FileDescriptor).unwrap();
    // SAFETY: the handle was made just now.
    let descriptor = unsafe { rig.driver.export(handle) }.unwrap();
    let right = shared(rig, 2);
    for wrong in [
        HandleSpec { bytes: rig.granule, ..right },
        HandleSpec { kind: HandleKind::Private, ..right },
        HandleSpec { device: SECOND, ..right },
    ] {
        refused(rig.driver.import(descriptor.as_fd(), wrong), &[ErrorKind::InvalidValue]);
    }
    let (reader, _writer) = std::io::pipe().unwrap();
    refused(rig.driver.import(reader.as_fd(), right), &[ErrorKind::InvalidValue]);
}

fn importing_costs_the_device_nothing(rig: &Rig) {
    let before = rig.free_bytes(FIRST);
    let handle = rig.create_kind(FIRST, 1, HandleKind::FileDescriptor).unwrap();
    // SAFETY: the handle was made just now.
    let descriptor = unsafe { rig.driver.export(handle) }.unwrap();
    let imported: Vec<_> =
        (0..3).map(|_| rig.adopt(rig.driver.import(descriptor.as_fd(), shared(rig, 1)).unwrap())).collect();
    assert_eq!(rig.free_bytes(FIRST), before - rig.granule);
    rig.release(handle).unwrap();
    assert_eq!(rig.free_bytes(FIRST), before - rig.granule);
    imported.into_iter().for_each(|handle| rig.release(handle).unwrap());
    assert_eq!(rig.free_bytes(FIRST), before);
}
