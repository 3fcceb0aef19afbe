//! Where content waits while its memory is away: F37, F44.

use crate::rig::{HERE, HOST_PARTS, Shape};
use crate::sleep::{CHUNK, filled, free_bytes, in_arena, verify};
use std::path::PathBuf;
use stitchpool::driver::{DeviceId, Driver};
use stitchpool::{ArenaId, Backup, Error, Scope, Settings};

/// A directory of this test's own, gone at the end.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stitchpool-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn every_backup_brings_every_byte_back_under_the_same_address() {
    let directory = Directory::new("every-backup");
    for backup in [Backup::Host, Backup::Peer(DeviceId(1)), Backup::Disk(directory.0.clone())] {
        let rig = Shape { devices: 2, ..Shape::exact(CHUNK, 64) }.build();
        let stream = rig.stream();
        let arena = rig.pool().arena("weights").unwrap();
        let blocks = filled(&rig, stream, arena, 5, 3 * CHUNK + 512);
        let suspended = rig.pool().suspend(Scope::Arena(arena), &backup).unwrap();
        assert_eq!((suspended.already, suspended.not_yet_visible_bytes), (false, 0), "{backup:?}");
        assert_eq!(free_bytes(&rig), 64 * CHUNK, "{backup:?}");
        rig.pool().check().unwrap();
        let resumed = rig.pool().resume(Scope::Arena(arena)).unwrap();
        assert_eq!(resumed.restored_bytes, suspended.backup_bytes, "{backup:?}");
        verify(&rig, stream, &blocks, 3 * CHUNK + 512);
        assert_eq!(
            rig.host.memory(DeviceId::HOST).unwrap().free_bytes,
            HOST_PARTS * 64 * CHUNK,
            "{backup:?} is not kept"
        );
        assert!(directory.files().is_empty(), "{backup:?}");
    }
}

#[test]
fn f37_what_was_written_before_suspend_comes_back_and_what_has_no_backup_is_poisoned() {
    let shape = Shape::exact(CHUNK, 64);
    let shape = Shape { settings: Settings { poison: true, ..shape.settings.clone() }, ..shape };
    let rig = shape.build();
    let (stream, other) = (rig.stream(), rig.stream());
    let [kept, gone] = ["kept", "gone"].map(|name| rig.pool().arena(name).unwrap());
    let a = in_arena(&rig, stream, kept, 2 * CHUNK);
    let b = in_arena(&rig, stream, gone, 2 * CHUNK);
    rig.busy(other);
    rig.fill(other, a, 2 * CHUNK, 11);
    rig.fill(stream, b, 2 * CHUNK, 12);
    rig.pool().suspend(Scope::Arena(kept), &Backup::Host).unwrap();
    rig.pool().suspend(Scope::Arena(gone), &Backup::Discard).unwrap();
    rig.pool().resume(Scope::Arena(gone)).unwrap();
    rig.pool().resume(Scope::Arena(kept)).unwrap();
    rig.verify(stream, a, 2 * CHUNK, 11);
    rig.assert_right();
    let mut read = [0; 64];
    rig.host.peek(b + CHUNK, &mut read).unwrap();
    assert_eq!(read, [0xA5; 64]);
}

#[test]
fn the_backup_of_a_block_that_was_freed_asleep_is_in_no_requests_way() {
    let rig = Shape { devices: 2, ..Shape::exact(CHUNK, 8) }.build();
    let (stream, there) = (rig.stream(), rig.stream_on(DeviceId(1)));
    let arena = rig.pool().arena("weights").unwrap();
    let block = in_arena(&rig, stream, arena, 6 * CHUNK);
    rig.pool().suspend(Scope::Arena(arena), &Backup::Peer(DeviceId(1))).unwrap();
    assert_eq!(rig.shortage(there, 8 * CHUNK).missing_bytes, 6 * CHUNK, "its backup is there");
    rig.free(block);
    rig.take(there, 8 * CHUNK);
    rig.assert_right();
}

#[test]
fn f44_backups_are_kept_as_far_as_the_setting_says() {
    for keep_bytes in [0, 4 * CHUNK, 64 * CHUNK] {
        let shape = Shape::exact(CHUNK, 64);
        let shape = Shape { settings: Settings { backup_keep_bytes: keep_bytes, ..shape.settings.clone() }, ..shape };
        let rig = shape.build();
        let stream = rig.stream();
        let blocks = filled(&rig, stream, ArenaId::DEFAULT, 4, 2 * CHUNK);
        for cycle in 0..50 {
            rig.pool().suspend(Scope::All, &Backup::Host).unwrap();
            rig.pool().resume(Scope::All).unwrap();
            let kept = rig.ledger().physical_bytes_on(DeviceId::HOST);
            let expected = if keep_bytes >= 8 * CHUNK { 8 * CHUNK } else { 0 };
            assert_eq!(kept, expected, "cycle {cycle}, {keep_bytes} may be kept");
        }
        verify(&rig, stream, &blocks, 2 * CHUNK);
        rig.pool().trim();
        assert_eq!(rig.ledger().physical_bytes_on(DeviceId::HOST), 0, "trim gives idle trays back");
    }
}

#[test]
fn a_backup_file_that_was_changed_or_removed_is_an_error_and_nothing_else_is_lost() {
    let directory = Directory::new("tampered");
    let rig = Shape::exact(CHUNK, 64).build();
    let stream = rig.stream();
    let [a, b] = ["a", "b"].map(|name| rig.pool().arena(name).unwrap());
    let in_a = filled(&rig, stream, a, 1, 2 * CHUNK);
    let in_b = filled(&rig, stream, b, 1, 2 * CHUNK);
    rig.pool().suspend(Scope::Arena(a), &Backup::Disk(directory.0.clone())).unwrap();
    let file = directory.files().remove(0);
    let whole = std::fs::read(&file).unwrap();
    let mut tampered = whole.clone();
    tampered[100] ^= 1;
    for (content, words) in [(&tampered[..], "not those that were written"), (&whole[..CHUNK as usize], "fill whole")] {
        std::fs::write(&file, content).unwrap();
        let error = rig.pool().resume(Scope::Arena(a)).unwrap_err();
        assert!(matches!(error, Error::Disk { .. }) && error.to_string().contains(words), "{error}");
        rig.pool().check().unwrap();
        verify(&rig, stream, &in_b, 2 * CHUNK);
    }
    std::fs::write(&file, &whole).unwrap();
    rig.pool().resume(Scope::Arena(a)).unwrap();
    verify(&rig, stream, &in_a, 2 * CHUNK);
    let missing = directory.0.join("not-there");
    let error = rig.pool().suspend(Scope::Arena(a), &Backup::Disk(missing)).unwrap_err();
    assert!(matches!(error, Error::Disk { .. }), "{error}");
    verify(&rig, stream, &in_a, 2 * CHUNK);
}

#[test]
fn a_backup_that_cannot_be_is_refused() {
    let rig = Shape { devices: 2, ..Shape::exact(CHUNK, 16) }.build();
    let stream = rig.stream();
    let block = rig.take(stream, 12 * CHUNK);
    rig.fill(stream, block, 12 * CHUNK, 3);
    let error = rig.pool().suspend(Scope::All, &Backup::Peer(HERE)).unwrap_err();
    assert!(matches!(error, Error::Backup(_)), "{error}");
    let error = rig.pool().suspend(Scope::All, &Backup::Peer(DeviceId(7))).unwrap_err();
    assert!(matches!(error, Error::UnknownDevice { .. }), "{error}");
    rig.host.outside(DeviceId::HOST, (HOST_PARTS * 16 - 6) * CHUNK).unwrap();
    let error = rig.pool().suspend(Scope::All, &Backup::Host).unwrap_err();
    assert!(error.to_string().contains("host"), "{error}");
    let foreign = ArenaId::DEFAULT;
    rig.pool().suspend(Scope::Arena(foreign), &Backup::Peer(DeviceId(1))).unwrap();
    assert_eq!(rig.pool().stats().devices[1].holdings.backup_bytes, 12 * CHUNK);
    rig.pool().resume(Scope::All).unwrap();
    rig.verify(stream, block, 12 * CHUNK, 3);
    rig.assert_right();
}
