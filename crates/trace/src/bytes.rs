//! The unpacked stream with its position. Reads in bounded steps: no declared length is ever trusted with memory.

use crate::{Error, ErrorKind, Result};
use std::io::Read;

const BUFFER_BYTES: usize = 256 << 10;

/// The unpacked stream, by the piece.
pub(crate) struct Bytes<'a> {
    source: Box<dyn Read + 'a>,
    /// `buffer[start..end]` is read and not yet taken.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Offset of `buffer[0]` in the stream.
    buffer_position: u64,
    /// Bytes that the stream may have.
    limit_bytes: u64,
}

impl<'a> Bytes<'a> {
    /// The longest piece that [`Bytes::take`] gives.
    pub(crate) const PIECE_BYTES: usize = BUFFER_BYTES;

    pub(crate) fn new(source: Box<dyn Read + 'a>, limit_bytes: u64) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { source, buffer, start: 0, end: 0, buffer_position: 0, limit_bytes }
    }

    /// Offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.buffer_position + self.start as u64
    }

    /// The next byte.
    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8> {
        if self.start == self.end {
            self.require(1)?;
        }
        let byte = self.buffer[self.start];
        self.start += 1;
        Ok(byte)
    }

    /// The next `N` bytes.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The next `count` bytes, at most [`Bytes::PIECE_BYTES`].
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&[u8]> {
        if self.end - self.start < count {
            self.require(count)?;
        }
        let piece = &self.buffer[self.start..self.start + count];
        self.start += count;
        Ok(piece)
    }

    /// Passes over `count` bytes.
    pub(crate) fn skip(&mut self, mut count: u64) -> Result<()> {
        while count > 0 {
            let step = count.min(BUFFER_BYTES as u64);
            self.take(usize::try_from(step).unwrap_or(BUFFER_BYTES))?;
            count -= step;
        }
        Ok(())
    }

    /// The next bytes without taking them: `count`, or fewer at the end of the stream.
    pub(crate) fn peek(&mut self, count: usize) -> Result<&[u8]> {
        self.fill(count)?;
        Ok(&self.buffer[self.start..self.end.min(self.start + count)])
    }

    /// The next line without its end, `None` after the last. `token_bytes` bounds it.
    pub(crate) fn line(&mut self, token_bytes: u64) -> Result<Option<&[u8]>> {
        let mut wanted = 1;
        let mut seen = 0;
        let length = loop {
            self.fill(wanted)?;
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = unread[seen..].iter().position(|&byte| byte == b'\n') {
                break seen + at + 1;
            }
            if unread.len() < wanted {
                break unread.len();
            }
            seen = unread.len();
            if seen == BUFFER_BYTES || seen as u64 > token_bytes {
                let reason = format!("a line of more than {seen} bytes is no log line");
                return Err(Error::new(ErrorKind::LimitReached, self.position(), reason));
            }
            wanted = seen + 1;
        };
        if length == 0 {
            return Ok(None);
        }
        let line = self.take(length)?;
        Ok(Some(line.trim_ascii_end()))
    }

    fn require(&mut self, count: usize) -> Result<()> {
        self.fill(count)?;
        let found = self.end - self.start;
        if found < count {
            let reason = format!("the file ends here; {} more bytes were expected", count - found);
            return Err(Error::new(ErrorKind::Truncated, self.buffer_position + self.end as u64, reason));
        }
        Ok(())
    }

    /// Reads until `count` bytes (at most the buffer's) are there or the stream ends.
    #[cold]
    fn fill(&mut self, count: usize) -> Result<()> {
        debug_assert!(count <= BUFFER_BYTES, "pieces fit the buffer");
        while self.end - self.start < count {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.buffer_position += self.start as u64;
                self.end -= self.start;
                self.start = 0;
            }
            let end_position = self.buffer_position + self.end as u64;
            let read = match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::from_io(end_position, &error)),
            };
            self.end += read;
            if end_position + read as u64 > self.limit_bytes {
                let reason = format!(
                    "the unpacked stream is longer than the limit of {} bytes; raise Limits::unpacked_bytes if it is sound",
                    self.limit_bytes
                );
                return Err(Error::new(ErrorKind::LimitReached, self.limit_bytes, reason));
            }
        }
        Ok(())
    }
}
