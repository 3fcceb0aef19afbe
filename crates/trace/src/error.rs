//! Why a trace could not be read, and where in it.

use std::fmt;

/// A refusal to read on: the place in the unpacked stream, and what is wrong there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What kind of refusal it is.
    pub kind: ErrorKind,
    /// Byte offset in the unpacked stream.
    pub position: u64,
    /// What is wrong, with the value, and what to do about it where something can be done.
    pub reason: String,
}

/// The kinds of refusal that callers tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// The system could not read the file.
    Io,
    /// The file ends before the trace does.
    Truncated,
    /// The bytes are not what their format allows.
    Malformed,
    /// A pickle that would run code, or refers to things outside itself.
    Refused,
    /// A limit of [`crate::Limits`] was reached.
    LimitReached,
    /// A sound file, but of nothing that this crate reads.
    NotATrace,
    /// A trace whose content has the wrong shape: a key missing or of the wrong type.
    WrongShape,
}

/// What reading returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, position: u64, reason: impl Into<String>) -> Self {
        Self { kind, position, reason: reason.into() }
    }

    /// A reader's error: what ended early, is damaged or wants too much memory is told apart from what failed.
    pub(crate) fn from_io(position: u64, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput | std::io::ErrorKind::Other => {
                ErrorKind::Malformed
            }
            std::io::ErrorKind::OutOfMemory => ErrorKind::LimitReached,
            _ => ErrorKind::Io,
        };
        let remedy = match kind {
            ErrorKind::Truncated | ErrorKind::Malformed => {
                "; the file is cut off or damaged: copy it again, or record it anew"
            }
            _ => "",
        };
        Self::new(kind, position, format!("cannot read on: {error}{remedy}"))
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.position) {
            // Nothing was read: there is no place to name.
            (ErrorKind::Io | ErrorKind::NotATrace, 0) => f.write_str(&self.reason),
            (_, position) => write!(f, "at byte {position}: {}", self.reason),
        }
    }
}
