//! Takes off the compression, told by its magic bytes. Bounds the window; the unpacked size is bounded by the reader.

use crate::{Error, Limits, Result};
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const PACKED_BUFFER_BYTES: usize = 256 << 10;

/// The unpacked stream of a source that is packed with gzip, xz or zstd, or not at all.
pub(crate) fn unpack<'a>(mut source: impl Read + 'a, limits: &Limits) -> Result<Box<dyn Read + 'a>> {
    let mut head = Vec::with_capacity(XZ.len());
    (&mut source).take(XZ.len() as u64).read_to_end(&mut head).map_err(|error| Error::from_io(0, &error))?;
    let (is_gzip, is_xz, is_zstd) = (head.starts_with(GZIP), head.starts_with(XZ), head.starts_with(ZSTD));
    let packed = BufReader::with_capacity(PACKED_BUFFER_BYTES, io::Cursor::new(head).chain(source));
    if is_gzip {
        return Ok(Box::new(MultiGzDecoder::new(packed)));
    }
    if is_xz {
        let window_kib = u32::try_from(limits.window_bytes / 1024).unwrap_or(u32::MAX);
        return Ok(Box::new(XzReader::new_mem_limit(packed, true, window_kib)));
    }
    if is_zstd {
        return Ok(Box::new(ZstdReader::new(packed, limits.window_bytes)));
    }
    Ok(Box::new(packed))
}

/// The content of all frames of a zstd stream, one after the other, each against its checksum.
struct ZstdReader<R> {
    packed: R,
    frame: FrameDecoder,
    /// Whether `frame` has begun and its content is not yet all read.
    is_inside: bool,
}

impl<R: BufRead> ZstdReader<R> {
    fn new(packed: R, window_bytes: u64) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(window_bytes);
        Self { packed, frame, is_inside: false }
    }

    /// Begins the next frame that holds content, past those meant to be skipped. False at the end of the source.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut (&mut self.packed).take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(refusal(&error)),
            }
        }
        Ok(false)
    }

    fn check_sum(&self) -> io::Result<()> {
        match (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum()) {
            (Some(written), Some(found)) if written != found => {
                Err(invalid(format!("zstd checksum is {found:#010x}, the file says {written:#010x}")))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_inside {
                self.is_inside = self.begin_frame()?;
                if !self.is_inside {
                    return Ok(0);
                }
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                self.frame
                    .decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| refusal(&error))?;
            }
            let count = self.frame.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.check_sum()?;
            self.is_inside = false;
        }
    }
}

/// A frame's refusal, with the kind that tells what is behind it.
fn refusal(error: &FrameDecoderError) -> io::Error {
    if matches!(error, FrameDecoderError::WindowSizeTooBig { .. }) {
        return io::Error::new(io::ErrorKind::OutOfMemory, format!("{error}; see Limits::window_bytes"));
    }
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let inner = causes.filter_map(|error| error.downcast_ref::<io::Error>()).next();
    io::Error::new(inner.map_or(io::ErrorKind::InvalidData, io::Error::kind), error.to_string())
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
