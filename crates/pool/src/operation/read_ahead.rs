//! Reads backup files ahead, on a thread of its own, while what was read before goes to the device. It calls
//! no driver.

use crate::error::Result;
use crate::mapper::backup::{Content, Store};
use crate::mapper::disk::DiskFile;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

/// The parts of contents that lie in files, read in order.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// Not asked for yet.
    parts: VecDeque<FilePart>,
    reader: Option<Reader>,
}

/// The thread that reads.
#[derive(Debug)]
struct Reader {
    read: Receiver<Result<Vec<u8>>>,
    thread: JoinHandle<()>,
}

/// Bytes in a file.
#[derive(Clone, Debug)]
struct FilePart {
    file: Arc<DiskFile>,
    offset: u64,
    checksum: u32,
    bytes: u64,
}

/// So many parts are read and not asked for yet, at most; one more is being read.
const PARTS_AHEAD: usize = 1;

impl FilePart {
    fn read(&self) -> Result<Vec<u8>> {
        let mut buffer = vec![0; usize::try_from(self.bytes).unwrap_or(usize::MAX)];
        self.file.read(self.offset, &mut buffer, self.checksum)?;
        Ok(buffer)
    }
}

impl ReadAhead {
    /// Begins to read what of these contents lies in files. Where no thread can be had, each part is read
    /// when it is asked for.
    pub(crate) fn over<'a>(contents: impl IntoIterator<Item = &'a Content>) -> Self {
        let deposits = contents.into_iter().flat_map(|content| match content {
            Content::Parts(parts) => parts.as_slice(),
            Content::Handle(_) | Content::Discarded => &[],
        });
        let parts: VecDeque<FilePart> = deposits
            .filter_map(|part| match &part.store {
                Store::File(file, offset, checksum) => {
                    Some(FilePart { file: file.clone(), offset: *offset, checksum: *checksum, bytes: part.bytes })
                }
                Store::Tray(..) => None,
            })
            .collect();
        if parts.is_empty() {
            return Self { parts, reader: None };
        }
        let (sender, read) = sync_channel(PARTS_AHEAD);
        let ahead = parts.clone();
        // The send fails, and the thread ends, when nobody asks any more.
        let read_all = move || drop(ahead.iter().try_for_each(|part| sender.send(part.read())));
        let thread = Builder::new().name("stitchpool-read-ahead".into()).spawn(read_all);
        Self { parts, reader: thread.ok().map(|thread| Reader { read, thread }) }
    }

    /// The bytes of the next part, if they are those that were written.
    pub(crate) fn next(&mut self) -> Result<Vec<u8>> {
        let Some(part) = self.parts.pop_front() else { return Ok(Vec::new()) };
        let read = self.reader.as_ref().and_then(|reader| reader.read.recv().ok());
        read.unwrap_or_else(|| part.read())
    }
}

impl Drop for ReadAhead {
    /// The files are let go of before whoever has read them deletes them.
    fn drop(&mut self) {
        if let Some(Reader { read, thread }) = self.reader.take() {
            drop(read);
            if thread.join().is_err() {
                tracing::warn!("the thread that read a backup ahead has panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapper::backup::Deposit;

    /// Three parts of one file, the last with a wrong checksum.
    fn parts() -> Vec<Content> {
        let (file, mut open) = DiskFile::create(&std::env::temp_dir()).unwrap();
        let file = Arc::new(file);
        let mut contents = vec![Content::Discarded];
        for (number, wrong) in [(0_u8, 0), (1, 0), (2, 1)] {
            let checksum = file.append(&mut open, &[number; 100]).unwrap();
            let store = Store::File(file.clone(), u64::from(number) * 100, checksum ^ wrong);
            contents.push(Content::Parts(vec![Deposit { at: 0, bytes: 100, store }]));
        }
        contents
    }

    #[test]
    fn parts_come_in_order_and_what_is_wrong_is_an_error_of_its_own_part() {
        let contents = parts();
        let mut files = ReadAhead::over(&contents);
        assert_eq!(files.next().unwrap(), [0; 100]);
        assert_eq!(files.next().unwrap(), [1; 100]);
        assert!(files.next().is_err());
        assert!(files.next().unwrap().is_empty(), "there is no more");
    }

    #[test]
    fn a_reader_that_nobody_asks_any_more_ends_and_lets_go_of_its_file() {
        let contents = parts();
        let Content::Parts(first) = &contents[1] else { panic!() };
        let Store::File(file, ..) = &first[0].store else { panic!() };
        let file = Arc::downgrade(file);
        let files = ReadAhead::over(&contents);
        drop(contents);
        drop(files);
        assert!(file.upgrade().is_none());
    }
}
