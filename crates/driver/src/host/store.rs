//! The bytes of one device: a sparse file without a name. It knows no handle.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::{Errno, Result};

/// A sparse file that gives out runs of itself. A run's offset is never given again, so a new run
/// reads as zeros, and runs taken one after another are neighbours that the system can map as one.
#[derive(Debug)]
pub(super) struct Store {
    file: OwnedFd,
    size_bytes: u64,
    taken_bytes: u64,
}

impl Store {
    /// A store as large as the system lets a file be.
    pub(super) fn open() -> Result<Self> {
        let file = rustix::fs::memfd_create("stitchpool-device", MemfdFlags::CLOEXEC)?;
        let mut size_bytes = 1 << 62;
        while let Err(error) = rustix::fs::ftruncate(&file, size_bytes) {
            if size_bytes <= SMALLEST_BYTES {
                return Err(error);
            }
            size_bytes /= 2;
        }
        Ok(Self { file, size_bytes, taken_bytes: 0 })
    }

    /// Takes a run of `bytes` and says at which offset it begins.
    pub(super) fn take(&mut self, bytes: u64) -> Result<u64> {
        let offset = self.taken_bytes;
        let end = offset.checked_add(bytes).filter(|&end| end <= self.size_bytes).ok_or(Errno::FBIG)?;
        self.taken_bytes = end;
        Ok(offset)
    }

    /// Gives the memory behind a run back to the system.
    pub(super) fn punch(&self, offset: u64, bytes: u64) {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = rustix::fs::fallocate(&self.file, how, offset, bytes) {
            // Nobody reads the run again, so this costs memory and nothing else.
            tracing::warn!(offset, bytes, %error, "released memory did not go back to the system");
        }
    }

    /// The file that all runs lie in.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A file of its own for memory that leaves the process. It is sealed against changes of its size,
/// so that no importer can cut it from under the others.
pub(super) fn open_exportable(bytes: u64) -> Result<OwnedFd> {
    let file = rustix::fs::memfd_create("stitchpool-exportable", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, bytes)?;
    rustix::fs::fcntl_add_seals(&file, FIXED_SIZE)?;
    Ok(file)
}

/// Whether a file is one that [`open_exportable`] made; a foreign file that is sealed alike serves as well.
pub(super) fn is_exportable(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(FIXED_SIZE))
}

const FIXED_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// A store smaller than this would serve nobody: one card's memory, many times over.
const SMALLEST_BYTES: u64 = 1 << 42;
