//! What becomes of the content of blocks while they sleep.

use crate::mapper::disk::DiskFile;
use crate::mapper::tray::Tray;
use std::path::PathBuf;
use std::sync::Arc;
use stitchpool_chunks::PhysicalHandle;
use stitchpool_driver::DeviceId;

/// What becomes of the content of blocks that are suspended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Backup {
    /// It is gone: the blocks come back with undefined content (in debug mode a pattern,
    /// [`Settings::poison`](crate::Settings::poison)).
    Discard,
    /// It waits in host memory that the GPU can copy to directly.
    #[default]
    Host,
    /// It waits in memory of another device.
    Peer(DeviceId),
    /// It waits in a file in this directory, deleted when it is read back or not needed any more.
    Disk(PathBuf),
}

/// The content of a slot without memory.
#[derive(Debug)]
pub(crate) enum Content {
    /// In the handle that stood there: nothing was lost or copied yet.
    Handle(Arc<PhysicalHandle>),
    /// Gone.
    Discarded,
    /// Copied away. What no part names was free.
    Parts(Vec<Deposit>),
}

/// A run of bytes and where they wait.
#[derive(Debug)]
pub(crate) struct Deposit {
    /// The address they belong at.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) store: Store,
}

/// Where bytes wait.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// In a tray, at this offset.
    Tray(Arc<Tray>, u64),
    /// In a file, at this offset, with this checksum.
    File(Arc<DiskFile>, u64, u32),
}

impl Content {
    /// The trays that it lies in.
    pub(crate) fn into_trays(self) -> Vec<Arc<Tray>> {
        let Self::Parts(parts) = self else { return Vec::new() };
        let trays = parts.into_iter().filter_map(|part| match part.store {
            Store::Tray(tray, _) => Some(tray),
            Store::File(..) => None,
        });
        trays.collect()
    }
}
