//! Export and import: within a process, and over a Unix socket to another one.

use crate::child::{self, Child};
use crate::rig::{FIRST, Rig, SECOND, refused};
use stitchpool_driver::{ErrorKind, HandleKind, HandleSpec, RawHandle, Rights, Shareable};

rows!(everywhere:
    an_imported_handle_has_the_exporters_bytes,
    imported_memory_outlives_the_exporters_handle,
    a_handle_is_imported_twice_and_each_import_stands_alone,
    an_import_needs_the_descriptor_no_longer,
    a_second_device_uses_imported_memory,
    another_process_uses_the_memory_by_a_descriptor_that_came_over_a_socket,
    a_private_handle_cannot_be_exported,
    an_import_must_say_the_kind,
);
rows!(host_only: an_import_must_say_the_size_and_device, importing_costs_the_device_nothing);

fn shared(rig: &Rig, granules: u64) -> HandleSpec {
    HandleSpec { device: FIRST, bytes: granules * rig.granule, kind: HandleKind::FileDescriptor }
}

fn exported(rig: &Rig, granules: u64) -> (RawHandle, Shareable) {
    let handle = rig.create_kind(FIRST, granules, HandleKind::FileDescriptor).unwrap();
    // SAFETY: the handle was made just now.
    (handle, unsafe { rig.driver.export(handle, HandleKind::FileDescriptor) }.unwrap())
}

fn imported(rig: &Rig, shareable: &Shareable, granules: u64) -> RawHandle {
    rig.adopt(rig.driver.import(shareable, shared(rig, granules)).unwrap())
}

fn an_imported_handle_has_the_exporters_bytes(rig: &Rig) {
    let (handle, shareable) = exported(rig, 2);
    let imported = imported(rig, &shareable, 2);
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
    let (handle, shareable) = exported(rig, 1);
    rig.map(at, 1, handle).unwrap();
    rig.open(at, 1, FIRST, Rights::ReadWrite).unwrap();
    rig.fill(stream, at, 1, 5);
    rig.finish_stream(stream);
    let imported = imported(rig, &shareable, 1);
    rig.unmap(at, 1).unwrap();
    rig.release(handle).unwrap();
    rig.map(at, 1, imported).unwrap();
    rig.open(at, 1, FIRST, Rights::Read).unwrap();
    rig.verify(stream, at, 1, 5);
    rig.finish_stream(stream);
    rig.demand_right(1);
}

fn a_handle_is_imported_twice_and_each_import_stands_alone(rig: &Rig) {
    let (_, shareable) = exported(rig, 1);
    let (first, second) = (imported(rig, &shareable, 1), imported(rig, &shareable, 1));
    let (here, there) = (rig.reserve(1), rig.reserve(1));
    for (at, handle) in [(here, first), (there, second)] {
        rig.map(at, 1, handle).unwrap();
        rig.open(at, 1, FIRST, Rights::ReadWrite).unwrap();
    }
    let stream = rig.stream(FIRST);
    rig.fill(stream, here, 1, 7);
    rig.finish_stream(stream);
    rig.unmap(here, 1).unwrap();
    rig.release(first).unwrap();
    rig.verify(stream, there, 1, 7);
    rig.finish_stream(stream);
    rig.demand_right(1);
}

fn an_import_needs_the_descriptor_no_longer(rig: &Rig) {
    let (handle, shareable) = exported(rig, 1);
    let imported = imported(rig, &shareable, 1);
    drop(shareable);
    rig.release(handle).unwrap();
    let (at, stream) = (rig.reserve(1), rig.stream(FIRST));
    rig.map(at, 1, imported).unwrap();
    rig.open(at, 1, FIRST, Rights::ReadWrite).unwrap();
    rig.fill(stream, at, 1, 3);
    rig.verify(stream, at, 1, 3);
    rig.finish_stream(stream);
    rig.demand_right(1);
}

fn a_second_device_uses_imported_memory(rig: &Rig) {
    if !rig.has_two() {
        return;
    }
    let (_, shareable) = exported(rig, 1);
    let (at, stream) = (rig.reserve(1), rig.stream(SECOND));
    rig.map(at, 1, imported(rig, &shareable, 1)).unwrap();
    rig.open(at, 1, SECOND, Rights::ReadWrite).unwrap();
    rig.fill(stream, at, 1, 1);
    rig.verify(stream, at, 1, 1);
    rig.finish_stream(stream);
    rig.demand_right(1);
}

/// Both processes play this row: the child finds its part by the socket that it was given.
fn another_process_uses_the_memory_by_a_descriptor_that_came_over_a_socket(rig: &Rig) {
    let (at, stream) = (rig.reserve(2), rig.stream(FIRST));
    if let Some(socket) = child::socket() {
        if child::granule() != rig.granule {
            return;
        }
        let shareable = Shareable::Descriptor(child::receive(&socket));
        rig.map(at, 2, imported(rig, &shareable, 2)).unwrap();
        rig.open(at, 2, FIRST, Rights::ReadWrite).unwrap();
        rig.verify(stream, at, 2, 1);
        rig.fill(stream, at, 2, 2);
        rig.finish_stream(stream);
        rig.demand_right(2);
        return;
    }
    let (handle, shareable) = exported(rig, 2);
    rig.map(at, 2, handle).unwrap();
    rig.open(at, 2, FIRST, Rights::ReadWrite).unwrap();
    rig.fill(stream, at, 2, 1);
    rig.finish_stream(stream);
    let row = "another_process_uses_the_memory_by_a_descriptor_that_came_over_a_socket";
    let child = Child::start(&format!("sharing::on_{}::{row}", rig.driver.name()), rig.granule);
    let Shareable::Descriptor(descriptor) = shareable else { panic!("a descriptor was asked for") };
    child.send(&descriptor);
    drop(descriptor);
    child.demand_success();
    rig.verify(stream, at, 2, 2);
    rig.finish_stream(stream);
    rig.demand_right(2);
}

fn a_private_handle_cannot_be_exported(rig: &Rig) {
    let handle = rig.create(FIRST, 1);
    for kind in [HandleKind::Private, HandleKind::FileDescriptor, HandleKind::Fabric] {
        // SAFETY: the handle was made just now.
        assert!(unsafe { rig.driver.export(handle, kind) }.is_err(), "{kind:?}");
    }
}

fn an_import_must_say_the_kind(rig: &Rig) {
    let (handle, shareable) = exported(rig, 2);
    // SAFETY: the handle lives.
    assert!(unsafe { rig.driver.export(handle, HandleKind::Fabric) }.is_err());
    for kind in [HandleKind::Private, HandleKind::Fabric] {
        let wrong = HandleSpec { kind, ..shared(rig, 2) };
        refused(rig.driver.import(&shareable, wrong), &[ErrorKind::InvalidValue]);
    }
    let (reader, _writer) = std::io::pipe().unwrap();
    refused(rig.driver.import(&Shareable::Descriptor(reader.into()), shared(rig, 2)), &[ErrorKind::InvalidValue]);
}

fn an_import_must_say_the_size_and_device(rig: &Rig) {
    let (_, shareable) = exported(rig, 2);
    let right = shared(rig, 2);
    for wrong in [HandleSpec { bytes: rig.granule, ..right }, HandleSpec { device: SECOND, ..right }] {
        refused(rig.driver.import(&shareable, wrong), &[ErrorKind::InvalidValue]);
    }
}

fn importing_costs_the_device_nothing(rig: &Rig) {
    let before = rig.free_bytes(FIRST);
    let (handle, shareable) = exported(rig, 1);
    let imported: Vec<_> = (0..3).map(|_| imported(rig, &shareable, 1)).collect();
    assert_eq!(rig.free_bytes(FIRST), before - rig.granule);
    rig.release(handle).unwrap();
    assert_eq!(rig.free_bytes(FIRST), before - rig.granule);
    imported.into_iter().for_each(|handle| rig.release(handle).unwrap());
    assert_eq!(rig.free_bytes(FIRST), before);
}
