//! How far a reader is, for whoever draws a bar.

use std::io::{self, Read};

/// How far a reader is, in bytes of the file as it lies on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes read so far.
    pub read_bytes: u64,
    /// Bytes of the whole file, where known.
    pub total_bytes: Option<u64>,
}

/// Passes reads through and tells a hook about each.
pub(crate) struct Watched<'a, R> {
    source: R,
    progress: Progress,
    hook: &'a mut dyn FnMut(Progress),
}

impl<'a, R> Watched<'a, R> {
    pub(crate) fn new(source: R, total_bytes: Option<u64>, hook: &'a mut dyn FnMut(Progress)) -> Self {
        Self { source, progress: Progress { read_bytes: 0, total_bytes }, hook }
    }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.progress.read_bytes += count as u64;
        (self.hook)(self.progress);
        Ok(count)
    }
}
