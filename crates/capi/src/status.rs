//! What every function answers, in one number.

use std::ffi::CStr;
use stitchpool_driver::ErrorKind;

macro_rules! statuses {
    ($($name:ident = $value:literal, $constant:literal, $doc:literal;)*) => {
        /// What a function answers. The numbers never change; new ones may be added.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(i32)]
        pub enum Status { $(#[doc = $doc] $name = $value),* }

        impl Status {
            /// Every status with its name in the header.
            pub const ALL: &[(Self, &CStr)] = &[$((Self::$name, $constant)),*];

            /// What it means, in words.
            pub(crate) const fn meaning(self) -> &'static CStr {
                let text = match self { $(Self::$name => concat!($doc, "\0")),* };
                match CStr::from_bytes_with_nul(text.as_bytes()) {
                    Ok(text) => text,
                    Err(_) => c"",
                }
            }
        }
    };
}

statuses! {
    Ok = 0, c"STITCHPOOL_OK", "Done.";
    OutOfMemory = 1, c"STITCHPOOL_OUT_OF_MEMORY", "Not enough memory, after everything was tried.";
    NullPointer = 2, c"STITCHPOOL_NULL_POINTER", "A pointer that must point somewhere does not.";
    InvalidHandle = 3, c"STITCHPOOL_INVALID_HANDLE", "Not an open driver or pool, nor anything held of it.";
    InvalidArgument = 4, c"STITCHPOOL_INVALID_ARGUMENT", "A value that cannot be.";
    InvalidSize = 5, c"STITCHPOOL_INVALID_SIZE", "A size of 0, or one that no device could ever hold.";
    InvalidAlignment = 6, c"STITCHPOOL_INVALID_ALIGNMENT", "No power of two, or above the granule.";
    UnknownAddress = 7, c"STITCHPOOL_UNKNOWN_ADDRESS", "Not the address of a live block.";
    UnknownStream = 8, c"STITCHPOOL_UNKNOWN_STREAM", "Not a registered stream of the pool.";
    UnknownDevice = 9, c"STITCHPOOL_UNKNOWN_DEVICE", "Not a device of the pool or driver.";
    Unreachable = 10, c"STITCHPOOL_UNREACHABLE", "A device cannot reach the memory.";
    NoRights = 11, c"STITCHPOOL_NO_RIGHTS", "The stream's device may not use the block.";
    OutOfRange = 12, c"STITCHPOOL_OUT_OF_RANGE", "A part reaches beyond its block.";
    TooMany = 13, c"STITCHPOOL_TOO_MANY", "A limit on the number of things is reached.";
    TooSmall = 14, c"STITCHPOOL_TOO_SMALL", "The caller's array is too small.";
    InUse = 15, c"STITCHPOOL_IN_USE", "Blocks are live.";
    Busy = 16, c"STITCHPOOL_BUSY", "A call is under way on another thread.";
    Unavailable = 17, c"STITCHPOOL_UNAVAILABLE", "No such driver on this machine.";
    NotSupported = 18, c"STITCHPOOL_NOT_SUPPORTED", "The driver or platform cannot do this.";
    NotPermitted = 19, c"STITCHPOOL_NOT_PERMITTED", "It could, but this process may not.";
    OutOfResources = 20, c"STITCHPOOL_OUT_OF_RESOURCES", "The system has run out of something other than memory.";
    Capture = 21, c"STITCHPOOL_CAPTURE", "A capture forbids it.";
    Timeout = 22, c"STITCHPOOL_TIMEOUT", "The GPU was not done in time.";
    IllegalAddress = 23, c"STITCHPOOL_ILLEGAL_ADDRESS", "Work touched an address it had no rights to.";
    Deinitialized = 24, c"STITCHPOOL_DEINITIALIZED", "The driver is shut down already.";
    Driver = 25, c"STITCHPOOL_DRIVER", "Another refusal of the driver.";
    Internal = 26, c"STITCHPOOL_INTERNAL", "A fault of this library.";
    Asleep = 27, c"STITCHPOOL_ASLEEP", "An arena or block is suspended.";
    Shared = 28, c"STITCHPOOL_SHARED", "A block shares handles with others.";
    UnknownArena = 29, c"STITCHPOOL_UNKNOWN_ARENA", "Not an arena of the pool.";
    Disk = 30, c"STITCHPOOL_DISK", "A backup file would not do.";
    Held = 31, c"STITCHPOOL_HELD", "Leases, views, exports or other processes hold a block.";
    Vetoed = 32, c"STITCHPOOL_VETOED", "A listener would not let memory go.";
    Stale = 33, c"STITCHPOOL_STALE", "A ticket names memory that is not offered any more.";
    Gone = 34, c"STITCHPOOL_GONE", "Imported memory was recalled, or its process is gone.";
    CalledOff = 35, c"STITCHPOOL_CALLED_OFF", "Not all of a group could import, so none has.";
    Socket = 36, c"STITCHPOOL_SOCKET", "The system refused something about a socket.";
    Refused = 37, c"STITCHPOOL_REFUSED", "Another process refused, or sent what cannot be.";
}

impl From<ErrorKind> for Status {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::OutOfMemory => Self::OutOfMemory,
            ErrorKind::OutOfResources => Self::OutOfResources,
            ErrorKind::InvalidValue => Self::InvalidArgument,
            ErrorKind::InvalidDevice => Self::UnknownDevice,
            ErrorKind::NotSupported => Self::NotSupported,
            ErrorKind::NotPermitted => Self::NotPermitted,
            ErrorKind::Unreachable => Self::Unreachable,
            ErrorKind::Capture => Self::Capture,
            ErrorKind::IllegalAddress => Self::IllegalAddress,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Deinitialized => Self::Deinitialized,
            ErrorKind::Unknown => Self::Driver,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_counted_without_a_gap() {
        for (index, (status, name)) in Status::ALL.iter().enumerate() {
            assert_eq!(*status as usize, index, "{name:?}");
        }
    }
}
