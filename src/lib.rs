//! One address range over every GPU, and a memory pool on it that never fragments.
//!
//! A [`Pool`] stitches physical memory, wherever it lies, into contiguous addresses. It runs on CUDA
//! ([`driver::cuda`]), and without a GPU on real pages of this process ([`driver::host`]).
//!
//! ```
//! use std::sync::Arc;
//! use stitchpool::driver::host::{HostConfig, HostDriver};
//! use stitchpool::driver::{DeviceId, Driver, RawStream};
//! use stitchpool::{Pool, Request, Settings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let driver: Arc<dyn Driver> = HostDriver::new(HostConfig::default())?;
//! let pool = Pool::new(driver, Settings::default())?;
//! let stream = pool.register(RawStream { device: DeviceId(0), value: 0 })?;
//! let block = pool.alloc(&Request::new(10 << 20, stream))?;
//! assert_eq!(block.bytes, 10 << 20);
//! pool.free(block.address)?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

#[cfg(doctest)]
mod book;

pub use stitchpool_chunks as chunks;
pub use stitchpool_driver as driver;
pub use stitchpool_pool::{
    ArenaId, Backup, Block, Buffer, DeviceStats, Error, Export, ExportedPart, Growable, Holdings, Interest, Lease,
    Listener, ListenerId, Migrated, Part, Piece, Pin, Placement, Pool, Relief, Request, Result, Resumed, Scope,
    Segment, Settings, Shortage, SlotState, Stats, StreamId, Survey, SurveyedHandle, SurveyedSlot, Suspended, Trimmed,
    View,
};
pub use stitchpool_share as share;
