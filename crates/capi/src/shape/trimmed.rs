//! What a trim has done.

use crate::record::Record;
use stitchpool_pool::Trimmed;

/// `stitchpool_trimmed`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CTrimmed {
    pub struct_size: usize,
    pub released_bytes: u64,
    pub waiting_bytes: u64,
}

// SAFETY: the size, then numbers, without padding.
unsafe impl Record for CTrimmed {
    const NAME: &'static str = "stitchpool_trimmed";
    const FIRST_BYTES: usize = 24;
}

impl CTrimmed {
    pub(crate) const fn of(trimmed: &Trimmed) -> Self {
        Self {
            struct_size: size_of::<Self>(),
            released_bytes: trimmed.released_bytes,
            waiting_bytes: trimmed.waiting_bytes,
        }
    }
}
