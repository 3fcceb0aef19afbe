//! A file that backups lie in. It checks what it reads back, and deletes itself.

use crate::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A backup file. Gone when the last part that lies in it is.
#[derive(Debug)]
pub(crate) struct DiskFile {
    path: PathBuf,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl DiskFile {
    /// A new, empty file in `directory`, which nobody else may read.
    pub(crate) fn create(directory: &Path) -> Result<(Self, File)> {
        let name = format!("stitchpool-{}-{}.backup", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = directory.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match file {
            Ok(file) => Ok((Self { path }, file)),
            Err(error) => Err(disk(&path, "be created", &error)),
        }
    }

    /// Appends bytes and gives their checksum.
    pub(crate) fn append(&self, file: &mut File, bytes: &[u8]) -> Result<u32> {
        file.write_all(bytes).map_err(|error| disk(&self.path, "take the backup", &error))?;
        Ok(crc32fast::hash(bytes))
    }

    /// Reads bytes back, if they are those that were written.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8], checksum: u32) -> Result<()> {
        let read = |into: &mut [u8]| -> io::Result<()> {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(offset))?;
            file.read_exact(into)
        };
        read(into).map_err(|error| disk(&self.path, "give the backup back", &error))?;
        if crc32fast::hash(into) == checksum {
            return Ok(());
        }
        let detail = format!("{} bytes at offset {offset} are not those that were written", into.len());
        Err(Error::Disk { path: self.path.clone(), what: "give the backup back", detail })
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "a backup file could not be deleted");
        }
    }
}

fn disk(path: &Path, what: &'static str, error: &io::Error) -> Error {
    Error::Disk { path: path.to_path_buf(), what, detail: error.to_string() }
}
