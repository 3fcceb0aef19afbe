//! Why a function refused: the status, and words for people, kept for each thread.

use crate::status::Status;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use stitchpool_chunks::Error as ChunksError;
use stitchpool_pool::Error as PoolError;
use stitchpool_share::Error as ShareError;

/// A refusal of this library. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What C is answered.
    pub status: Status,
    /// What people are told: the value, the limit, what to do.
    pub words: String,
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

thread_local! {
    /// The words of this thread's latest refusal.
    static WORDS: RefCell<CString> = RefCell::default();
    /// Its status. Without a destructor, so that it can be read to the thread's end.
    static STATUS: Cell<Status> = const { Cell::new(Status::Ok) };
}

impl Refusal {
    pub(crate) fn new(status: Status, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    pub(crate) fn null(name: &str) -> Self {
        Self::new(Status::NullPointer, format!("`{name}` is null: it must point somewhere"))
    }
}

/// Keeps the words until this thread's next refusal.
pub(crate) fn remember(status: Status, words: &str) {
    STATUS.set(status);
    let words: Vec<u8> = words.bytes().filter(|byte| *byte != 0).collect();
    // A thread that is ending, as the main thread is in exit handlers, has no place for words any more.
    let _ = WORDS.try_with(|last| *last.borrow_mut() = CString::new(words).unwrap_or_default());
}

/// The words last kept on this thread, where it is ending what the status means; empty if there are none.
pub(crate) fn last_words() -> *const c_char {
    let meaning = || match STATUS.get() {
        Status::Ok => c"",
        status => status.meaning(),
    };
    WORDS.try_with(|last| last.borrow().as_ptr()).unwrap_or_else(|_| meaning().as_ptr())
}

impl From<PoolError> for Refusal {
    fn from(error: PoolError) -> Self {
        let status = match &error {
            PoolError::OutOfMemory(_) => Status::OutOfMemory,
            PoolError::InvalidSize { .. } => Status::InvalidSize,
            PoolError::InvalidAlignment { .. } => Status::InvalidAlignment,
            PoolError::UnknownAddress { .. } => Status::UnknownAddress,
            PoolError::UnknownStream { .. } => Status::UnknownStream,
            PoolError::UnknownDevice { .. } => Status::UnknownDevice,
            PoolError::Unreachable { .. } => Status::Unreachable,
            PoolError::NoRights { .. } => Status::NoRights,
            PoolError::Private { .. } | PoolError::Setting(_) | PoolError::Backup(_) | PoolError::Layout { .. } => {
                Status::InvalidArgument
            }
            PoolError::UnknownArena { .. } => Status::UnknownArena,
            PoolError::Asleep { .. } => Status::Asleep,
            PoolError::Busy { .. } => Status::Busy,
            PoolError::Capturing { .. } => Status::Capture,
            PoolError::InUse { .. } => Status::InUse,
            PoolError::NotCapturing { .. } | PoolError::NoGraph { .. } => Status::InvalidArgument,
            PoolError::Shared { .. } => Status::Shared,
            PoolError::Limit { .. } => Status::OutOfMemory,
            PoolError::Disk { .. } => Status::Disk,
            PoolError::Held { .. } => Status::Held,
            PoolError::Vetoed { .. } => Status::Vetoed,
            PoolError::NotWhole { .. } | PoolError::PartOfHandle { .. } => Status::Shared,
            PoolError::OutOfRange { .. } | PoolError::BeyondMax { .. } => Status::OutOfRange,
            PoolError::NotBacked { .. } => Status::InvalidArgument,
            PoolError::Lost { .. } => Status::OutOfResources,
            PoolError::TooMany { .. } => Status::TooMany,
            PoolError::Chunks(error) => of_chunks(error),
            PoolError::Driver(error) => error.kind.into(),
        };
        Self::new(status, error.to_string())
    }
}

fn of_chunks(error: &ChunksError) -> Status {
    match error {
        ChunksError::Driver(error) => error.kind.into(),
        ChunksError::Unaligned { .. }
        | ChunksError::Occupied { .. }
        | ChunksError::NotMapped { .. }
        | ChunksError::InsideMapping { .. }
        | ChunksError::Placement(_) => Status::InvalidArgument,
        ChunksError::OutOfRange { .. } => Status::OutOfRange,
        ChunksError::Unreachable { .. } => Status::Unreachable,
    }
}

impl From<stitchpool_driver::Error> for Refusal {
    fn from(error: stitchpool_driver::Error) -> Self {
        Self::new(error.kind.into(), error.to_string())
    }
}

impl From<ShareError> for Refusal {
    fn from(error: ShareError) -> Self {
        let status = match error {
            ShareError::Pool(error) => return error.into(),
            ShareError::Driver(error) => return error.into(),
            ShareError::NoTicket(_) | ShareError::Version { .. } | ShareError::Argument(_) => Status::InvalidArgument,
            ShareError::Stale { .. } => Status::Stale,
            ShareError::ForeignUser { .. } => Status::NotPermitted,
            ShareError::NotVisible { .. } => Status::UnknownDevice,
            ShareError::Rights { .. } => Status::NoRights,
            ShareError::Silent { .. } => Status::Timeout,
            ShareError::Lost { .. } | ShareError::Recalled { .. } => Status::Gone,
            ShareError::CalledOff { .. } => Status::CalledOff,
            ShareError::StillHeld { .. } => Status::Held,
            ShareError::Socket { .. } => Status::Socket,
            ShareError::Message { .. } | ShareError::Refused { .. } => Status::Refused,
            ShareError::TooMany { .. } => Status::TooMany,
            ShareError::Forked { .. } => Status::InvalidHandle,
        };
        Self::new(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::ffi::CStr;

    fn words() -> String {
        // SAFETY: `last_words` points to a string of this thread, and nothing is kept meanwhile.
        unsafe { CStr::from_ptr(last_words()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn words_are_kept_for_each_thread_until_its_next_refusal() {
        remember(Status::Driver, "first");
        std::thread::spawn(|| {
            assert_eq!(words(), "");
            remember(Status::Driver, "theirs");
        })
        .join()
        .unwrap();
        assert_eq!(words(), "first");
        remember(Status::Driver, "second, with a zero\0 in it");
        assert_eq!(words(), "second, with a zero in it");
    }
}
