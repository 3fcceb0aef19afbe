//! Opens a file or a stream, finds out what is in it, and hands it to the reader of that format.

use crate::bytes::Bytes;
use crate::progress::Watched;
use crate::{Error, ErrorKind, Limits, Progress, Result, Trace, rmm, snapshot, unpack};
use std::fs::File;
use std::io::Read;
use std::path::Path;

impl Trace {
    /// Reads the trace in a file. Format and compression are told by content, not by name.
    ///
    /// # Errors
    /// When the file cannot be read, is no trace, is damaged, or passes a limit.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        Self::open_watched(path, limits, &mut |_| ())
    }

    /// [`Trace::open`], telling `hook` after each read how far it is.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn open_watched(path: impl AsRef<Path>, limits: &Limits, hook: &mut dyn FnMut(Progress)) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |why: String| Error::new(ErrorKind::Io, 0, format!("cannot open {}: {why}", path.display()));
        let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
        let metadata = file.metadata().map_err(|error| refuse(error.to_string()))?;
        if metadata.is_dir() {
            return Err(refuse("it is a directory; name a file in it".to_owned()));
        }
        let total_bytes = metadata.is_file().then_some(metadata.len());
        Self::read(Watched::new(file, total_bytes, hook), limits)
    }

    /// Reads the trace in a stream, to the stream's end.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn read(source: impl Read, limits: &Limits) -> Result<Self> {
        let mut bytes = Bytes::new(unpack::unpack(source, limits)?, limits.unpacked_bytes);
        let head = bytes.peek(256)?;
        if head.is_empty() {
            return Err(Error::new(ErrorKind::NotATrace, 0, "the file is empty"));
        }
        if head[0] == snapshot::FIRST_BYTE {
            return snapshot::read(bytes, limits);
        }
        if rmm::looks_like(head) {
            return rmm::read(bytes, limits);
        }
        Err(Error::new(ErrorKind::NotATrace, 0, not_a_trace(head)))
    }
}

/// What a file that is no trace seems to be, and what would be one.
fn not_a_trace(head: &[u8]) -> String {
    let seems = match head {
        [b'P', b'K', 3, 4, ..] => {
            "a zip archive (torch.save writes those; use pickle.dump or _dump_snapshot)".to_owned()
        }
        [b'(' | b']' | b'}', ..] => {
            "perhaps a pickle of protocol 0 or 1 (write it with protocol 2 or later)".to_owned()
        }
        _ => match std::str::from_utf8(&head[..head.len().min(40)]) {
            Ok(text) => format!("text that begins {:?}", text.lines().next().unwrap_or_default()),
            Err(_) => format!("bytes that begin {:02x?}", &head[..head.len().min(8)]),
        },
    };
    format!("no trace, but {seems}; a trace is a PyTorch memory snapshot (a pickle) or an RMM log (CSV with a header)")
}
