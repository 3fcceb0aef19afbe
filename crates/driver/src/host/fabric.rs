//! Fabric handles of the host driver: a name by which another process of the same user opens the file
//! behind exportable memory. It keeps nothing alive, as CUDA's does not.

use crate::{Error, ErrorKind, FabricHandle, Result, Verb};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::Write;

const MARK: &[u8; 16] = b"stitchpool.fabri";

/// The name of a file that this process keeps open as long as its memory lives.
pub(super) fn name_of(file: BorrowedFd<'_>) -> Result<FabricHandle> {
    let stat = rustix::fs::fstat(file).map_err(|error| refused(Verb::Export, ErrorKind::OutOfResources, error))?;
    let pid = rustix::process::getpid().as_raw_pid();
    let mut bytes = [0; FabricHandle::BYTES];
    let mut rest = &mut bytes[..];
    let fields = [&pid.to_le_bytes()[..], &file.as_raw_fd().to_le_bytes(), &stat.st_dev.to_le_bytes()];
    // A slice as a writer fails only when it is full, and all of this is shorter.
    for field in [&MARK[..]].into_iter().chain(fields).chain([&stat.st_ino.to_le_bytes()[..]]) {
        let _ = rest.write_all(field);
    }
    Ok(FabricHandle(bytes))
}

/// The file that a name means, if the process that gave it still has it.
pub(super) fn open(handle: &FabricHandle) -> Result<OwnedFd> {
    let gone = || Error::new(Verb::Import, ErrorKind::InvalidValue, "the fabric handle names no memory that lives");
    let parsed = handle.0.strip_prefix(MARK).and_then(|rest| {
        let (pid, rest) = rest.split_first_chunk()?;
        let (descriptor, rest) = rest.split_first_chunk()?;
        let (device, rest) = rest.split_first_chunk()?;
        let (inode, _) = rest.split_first_chunk()?;
        let numbers = (i32::from_le_bytes(*pid), i32::from_le_bytes(*descriptor));
        Some((numbers, u64::from_le_bytes(*device), u64::from_le_bytes(*inode)))
    });
    let ((pid, descriptor), device, inode) = parsed.ok_or_else(gone)?;
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|error| match error {
        Errno::ACCESS | Errno::PERM => refused(Verb::Import, ErrorKind::NotPermitted, error),
        _ => gone(),
    })?;
    let stat = rustix::fs::fstat(file.as_fd()).map_err(|_| gone())?;
    if (stat.st_dev, stat.st_ino) == (device, inode) { Ok(file) } else { Err(gone()) }
}

fn refused(verb: Verb, kind: ErrorKind, error: Errno) -> Error {
    Error::new(verb, kind, format!("the file behind the fabric handle: {error}"))
}
