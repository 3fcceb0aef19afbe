//! One message as it travels: numbers in a fixed order without padding, and descriptors beside them. It
//! knows no message's meaning; what it reads was written by somebody else and is believed nowhere.

use rustix::fd::OwnedFd;

/// A message has at most so many bytes.
pub(crate) const PACKET_BYTES_MAX: usize = 4096;
/// And so many descriptors; the system takes 253.
pub(crate) const DESCRIPTORS_MAX: usize = 32;
/// A text in a message is cut to so many bytes.
const TEXT_BYTES_MAX: usize = 512;
/// The number of what is no question and answers none.
pub(crate) const UNASKED: u32 = 0;
const SERIAL: std::ops::Range<usize> = 4..8;
const MARK: u32 = u32::from_le_bytes(*b"spsh");

/// A message that is being written, or was received.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Packet {
    /// A message of this kind, to be filled.
    pub(crate) fn of_kind(kind: u16) -> Self {
        let mut packet = Self { bytes: Vec::with_capacity(256), descriptors: Vec::new() };
        packet.put(&MARK.to_le_bytes());
        packet.put(&UNASKED.to_le_bytes());
        packet.put(&kind.to_le_bytes());
        packet
    }

    /// The number that a question and its answer have in common.
    pub(crate) fn numbered(mut self, serial: u32) -> Self {
        self.bytes[SERIAL].copy_from_slice(&serial.to_le_bytes());
        self
    }

    /// Its number, if it is long enough to have one.
    pub(crate) fn serial(&self) -> u32 {
        let bytes = self.bytes.get(SERIAL).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(UNASKED, u32::from_le_bytes)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn put_u32(&mut self, number: u32) {
        self.put(&number.to_le_bytes());
    }

    pub(crate) fn put_u64(&mut self, number: u64) {
        self.put(&number.to_le_bytes());
    }

    /// Its length, then its bytes; a long text is cut.
    pub(crate) fn put_text(&mut self, text: &str) {
        let cut = text.floor_char_boundary(TEXT_BYTES_MAX);
        self.put_u32(cut as u32);
        self.put(&text.as_bytes()[..cut]);
    }
}

/// What is left to read of a message. An error is what is wrong with it, in words.
pub(crate) struct Reading<'a> {
    rest: &'a [u8],
}

type Read<T> = Result<T, String>;

impl<'a> Reading<'a> {
    /// Begins to read: the message's kind, and what follows.
    pub(crate) fn begin(bytes: &'a [u8]) -> Read<(u16, Self)> {
        let mut reading = Self { rest: bytes };
        let mark = reading.u32()?;
        if mark != MARK {
            return Err(format!("it begins with {mark:#x}, which no message of ours does"));
        }
        reading.u32()?;
        let kind = u16::from_le_bytes(reading.take()?);
        Ok((kind, reading))
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Read<[u8; N]> {
        let short = || format!("it ends {} bytes early", N - self.rest.len());
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(short)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Read<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Read<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Read<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Read<String> {
        let bytes = self.u32()? as usize;
        if bytes > TEXT_BYTES_MAX || bytes > self.rest.len() {
            return Err(format!(
                "a text of {bytes} bytes, where {} are left of at most {TEXT_BYTES_MAX}",
                self.rest.len()
            ));
        }
        let (text, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// As many records as `count` says, which must not be more than there is room for.
    pub(crate) fn records<T>(&mut self, one: impl Fn(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.rest.len() {
            return Err(format!("{count} records in {} bytes", self.rest.len()));
        }
        (0..count).map(|_| one(self)).collect()
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Read<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("{} bytes follow its end", self.rest.len())) }
    }
}
