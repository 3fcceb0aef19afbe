//! The bytes behind addresses: copied and set on streams, or carried to and from the process's own memory.
//! It owns nothing; who calls it holds the mappings until the work is done.

use crate::Origin;
use stitchpool_driver::{Address, DeviceId, RawStream, Result};

/// Queues a copy on a live stream. Neither range may cross from host memory to device memory; both stay
/// mapped and open to the stream's device until the copy is done.
///
/// # Errors
/// The driver's, unchanged.
pub fn copy(origin: &Origin, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()> {
    // SAFETY: the caller keeps both ranges mapped and open until the copy is done, and the stream alive.
    unsafe { origin.driver().copy(stream, to, from, bytes) }
}

/// Queues setting every byte of a range on a live stream; the range as for [`copy`].
///
/// # Errors
/// The driver's, unchanged.
pub fn memset(origin: &Origin, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()> {
    // SAFETY: the caller keeps the range mapped and open until it is done, and the stream alive.
    unsafe { origin.driver().memset(stream, at, bytes, value) }
}

/// Copies a range that `device` may read, and that no queued work writes, into `into`, and waits for that.
///
/// # Errors
/// The driver's, unchanged.
pub fn read(origin: &Origin, device: DeviceId, at: Address, into: &mut [u8]) -> Result<()> {
    // SAFETY: the caller keeps the range mapped, open and quiet, and has made sure that nothing captures.
    unsafe { origin.driver().read(device, at, into) }
}

/// Copies `from` to a range that `device` may write, and that no queued work uses, and waits for that.
///
/// # Errors
/// The driver's, unchanged.
pub fn write(origin: &Origin, device: DeviceId, at: Address, from: &[u8]) -> Result<()> {
    // SAFETY: the caller keeps the range mapped, open and quiet, and has made sure that nothing captures.
    unsafe { origin.driver().write(device, at, from) }
}

/// Makes the CPU wait for all work of this process on a device, none of whose streams is being captured.
///
/// # Errors
/// The driver's, unchanged.
pub fn synchronize(origin: &Origin, device: DeviceId) -> Result<()> {
    // SAFETY: the caller has made sure that nothing captures.
    unsafe { origin.driver().synchronize(device) }
}
