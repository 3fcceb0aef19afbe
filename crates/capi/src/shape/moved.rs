//! What a suspend, resume or migration has done.

use crate::record::Record;
use stitchpool_pool::{Migrated, Resumed, Suspended};

/// `stitchpool_moved`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CMoved {
    pub struct_size: usize,
    pub memory_bytes: u64,
    pub content_bytes: u64,
    pub not_yet_visible_bytes: u64,
    pub already: i32,
    pub reserved: u32,
}

// SAFETY: the size, then numbers, without padding.
unsafe impl Record for CMoved {
    const NAME: &'static str = "stitchpool_moved";
    const FIRST_BYTES: usize = 40;
}

impl CMoved {
    pub(crate) fn suspended(done: Suspended) -> Self {
        Self {
            struct_size: size_of::<Self>(),
            memory_bytes: done.released_bytes,
            content_bytes: done.backup_bytes,
            not_yet_visible_bytes: done.not_yet_visible_bytes,
            already: i32::from(done.already),
            reserved: 0,
        }
    }

    pub(crate) fn resumed(done: Resumed) -> Self {
        Self {
            struct_size: size_of::<Self>(),
            memory_bytes: done.taken_bytes,
            content_bytes: done.restored_bytes,
            not_yet_visible_bytes: 0,
            already: i32::from(done.already),
            reserved: 0,
        }
    }

    pub(crate) const fn migrated(done: Migrated) -> Self {
        Self {
            struct_size: size_of::<Self>(),
            memory_bytes: done.moved_bytes,
            content_bytes: done.copied_bytes,
            not_yet_visible_bytes: 0,
            already: 0,
            reserved: 0,
        }
    }
}
