//! What a driver says when it refuses.

use crate::{DeviceId, Verb};
use std::fmt;

/// A driver's refusal: the verb, the place and size it was asked for, and the driver's own words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What kind of refusal it is; policy decides by this alone.
    pub kind: ErrorKind,
    /// The verb that was refused.
    pub verb: Verb,
    /// The device it was asked of, where there is one.
    pub device: Option<DeviceId>,
    /// The bytes it was asked for, where there are any.
    pub bytes: Option<u64>,
    /// The driver's own name of the call and code, and what to do about it.
    pub detail: String,
}

/// The kinds of refusal that callers tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// The device has not so much free memory.
    OutOfMemory,
    /// The system, not the device, has run out: addresses, mappings, descriptors.
    OutOfResources,
    /// An argument that no driver takes: size, alignment, range, or a thing in the wrong state.
    InvalidValue,
    /// No such device.
    InvalidDevice,
    /// The driver or platform cannot do this.
    NotSupported,
    /// It could, but this process may not.
    NotPermitted,
    /// The device cannot reach that memory.
    Unreachable,
    /// The call would have broken, or was broken by, a capture.
    Capture,
    /// Work on the device touched an address it had no rights to; the context is lost.
    IllegalAddress,
    /// The work was not done within the time allowed.
    Timeout,
    /// There is no such driver on this machine, or it is too old.
    Unavailable,
    /// The driver is already shut down (the process is ending).
    Deinitialized,
    /// Anything else.
    Unknown,
}

/// What every verb of the seam returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A refusal with the driver's words.
    #[must_use]
    pub fn new(verb: Verb, kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, verb, device: None, bytes: None, detail: detail.into() }
    }

    /// The same refusal, with the device it was asked of.
    #[must_use]
    pub fn on(mut self, device: DeviceId) -> Self {
        self.device = Some(device);
        self
    }

    /// The same refusal, with the bytes it was asked for.
    #[must_use]
    pub fn of(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "driver refused to {}", self.verb)?;
        if let Some(bytes) = self.bytes {
            write!(f, " {bytes} bytes")?;
        }
        if let Some(device) = self.device {
            write!(f, " on {device}")?;
        }
        write!(f, ": {}: {}", self.kind, self.detail)?;
        match self.trouble() {
            Some(trouble) => write!(f, "; {}", trouble.see()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "out of memory",
            Self::OutOfResources => "out of resources",
            Self::InvalidValue => "invalid value",
            Self::InvalidDevice => "invalid device",
            Self::NotSupported => "not supported",
            Self::NotPermitted => "not permitted",
            Self::Unreachable => "unreachable",
            Self::Capture => "capture",
            Self::IllegalAddress => "illegal address",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Deinitialized => "deinitialized",
            Self::Unknown => "unknown error",
        })
    }
}
