//! What becomes of content while its blocks sleep.

use super::device::device_of;
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::status::Status;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use stitchpool_pool::Backup;

/// `stitchpool_backup`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CBackup {
    pub struct_size: usize,
    pub kind: i32,
    pub peer: i32,
    pub directory: *const c_char,
}

// SAFETY: the size, then numbers and a pointer, without padding.
unsafe impl Record for CBackup {
    const NAME: &'static str = "stitchpool_backup";
    const FIRST_BYTES: usize = 24;
}

impl CBackup {
    /// In host memory.
    pub(crate) const HOST: Self =
        Self { struct_size: size_of::<Self>(), kind: 0, peer: 0, directory: std::ptr::null() };

    /// # Safety
    /// - `directory` is null, or a text that ends with a zero.
    pub(crate) unsafe fn understood(&self) -> Result<Backup> {
        Ok(match self.kind {
            0 => Backup::Host,
            1 => Backup::Discard,
            2 => Backup::Peer(device_of(self.peer)?),
            3 if self.directory.is_null() => return Err(Refusal::null("stitchpool_backup.directory")),
            3 => {
                // SAFETY: not null, and the caller answers for the text.
                let directory = unsafe { CStr::from_ptr(self.directory) };
                Backup::Disk(OsStr::from_bytes(directory.to_bytes()).into())
            }
            kind => {
                let words = format!("{}.kind is {kind}: 0 is host memory, 1 none, 2 a peer, 3 a directory", Self::NAME);
                return Err(Refusal::new(Status::InvalidArgument, words));
            }
        })
    }
}
