//! The seam itself.

use crate::{
    Address, Capture, DeviceId, DeviceInfo, DeviceMemory, Grant, HandleKind, HandleSpec, Link, RawEvent, RawHandle,
    RawStream, Result, Shareable,
};
use std::time::Duration;

/// What the pool needs of a driver. Each verb does one thing now: it retries nothing, caches
/// nothing, logs nothing, and an `Err` has changed nothing.
///
/// Sizes are bytes. Unless a verb says otherwise it may be called from any thread, does not wait
/// for the GPU, and leaves the caller's current context and any capture as they were.
pub trait Driver: Send + Sync + std::fmt::Debug {
    /// The driver's name: `cuda` or `host`.
    fn name(&self) -> &'static str;

    /// Microseconds since some fixed point, never going back. The host driver's clock can be set.
    fn now_us(&self) -> u64;

    /// All devices, by ordinal. The host as a place for memory is not listed. Makes no context.
    fn devices(&self) -> Result<Vec<DeviceInfo>>;

    /// A device's free and total bytes now. `DeviceId::HOST` answers for host memory.
    fn memory(&self, device: DeviceId) -> Result<DeviceMemory>;

    /// How `from` reaches memory that lies on `to`.
    fn link(&self, from: DeviceId, to: DeviceId) -> Result<Link>;

    /// The granularity of handles of this kind on this device: a power of two.
    fn granularity(&self, device: DeviceId, kind: HandleKind) -> Result<u64>;

    /// Reserves `bytes` of contiguous addresses, aligned to `alignment` (0: the driver's own).
    /// `bytes` is a multiple of the granularity, not 0.
    fn reserve(&self, bytes: u64, alignment: u64) -> Result<Address>;

    /// Gives a reservation back.
    ///
    /// # Safety
    /// - `[at, at + bytes)` is exactly one live reservation of this driver.
    /// - Nothing is mapped in it (checked: `InvalidValue`).
    unsafe fn unreserve(&self, at: Address, bytes: u64) -> Result<()>;

    /// Creates physical memory. Its content is undefined.
    fn create(&self, spec: HandleSpec) -> Result<RawHandle>;

    /// Gives up the handle. The memory stays until its last mapping goes.
    ///
    /// # Safety
    /// - `handle` was created or imported by this driver and not yet released.
    unsafe fn release(&self, handle: RawHandle) -> Result<()>;

    /// Maps the whole of `handle` at `at`. No device has rights on it yet.
    ///
    /// # Safety
    /// - `handle` is live, and `bytes` is its size (checked: `NotSupported`).
    /// - `[at, at + bytes)` lies in one live reservation, and nothing is mapped there (checked: `InvalidValue`).
    unsafe fn map(&self, at: Address, bytes: u64, handle: RawHandle) -> Result<()>;

    /// Unmaps a run of whole, neighbouring mappings. Does not wait for work that uses them.
    ///
    /// # Safety
    /// - `[at, at + bytes)` is such a run, without a hole.
    /// - No work that is queued or running on any device uses these addresses.
    unsafe fn unmap(&self, at: Address, bytes: u64) -> Result<()>;

    /// Sets the rights of each device in `grants` over a run of whole, neighbouring mappings;
    /// devices not named keep theirs. All or nothing as seen by the ledger of rights.
    ///
    /// # Safety
    /// - `[at, at + bytes)` is such a run, without a hole.
    /// - Where a right is lowered, no queued or running work of that device needs it.
    unsafe fn set_rights(&self, at: Address, bytes: u64, grants: &[Grant]) -> Result<()>;

    /// Records a new event after all that is queued on `stream` so far.
    ///
    /// # Safety
    /// - `stream` is live and not being captured.
    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent>;

    /// Makes what is queued on `stream` from now on wait for `event`. The CPU does not wait.
    ///
    /// # Safety
    /// - `stream` is live and not being captured; `event` is live.
    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()>;

    /// Whether all work before `event` is done.
    ///
    /// # Safety
    /// - `event` is live.
    unsafe fn is_done(&self, event: RawEvent) -> Result<bool>;

    /// Makes the CPU wait until `event` is done, for `limit` at most (`Timeout`).
    ///
    /// # Safety
    /// - `event` is live.
    unsafe fn finish(&self, event: RawEvent, limit: Duration) -> Result<()>;

    /// Gives the event back; done or not.
    ///
    /// # Safety
    /// - `event` is live; nobody names it afterwards.
    unsafe fn forget(&self, event: RawEvent) -> Result<()>;

    /// Whether `stream` is being captured.
    ///
    /// # Safety
    /// - `stream` is live.
    unsafe fn capture(&self, stream: RawStream) -> Result<Capture>;

    /// A number that no other stream of this process has or had, as the driver counts them.
    ///
    /// # Safety
    /// - `stream` is live.
    unsafe fn stream_identity(&self, stream: RawStream) -> Result<u64>;

    /// Queues a copy on `stream`. Neither range may cross from host memory to device memory.
    ///
    /// # Safety
    /// - `stream` is live; both ranges stay mapped and open to its device until the copy is done.
    unsafe fn copy(&self, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()>;

    /// Queues setting each byte of the range to `value` on `stream`.
    ///
    /// # Safety
    /// - `stream` is live and not being captured; the range stays mapped and open to its device until it is done.
    unsafe fn memset(&self, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()>;

    /// Copies what lies at `at` into the process's own memory, by `device`, and waits for that. Nothing
    /// orders it after what streams have queued. The range may not cross from host memory to device memory.
    ///
    /// # Safety
    /// - The range is mapped and open to `device`, and no queued work writes it.
    /// - No stream of this process is being captured.
    unsafe fn read(&self, device: DeviceId, at: Address, into: &mut [u8]) -> Result<()>;

    /// Copies the process's own memory to `at`, by `device`, and waits for that; otherwise as `read`.
    ///
    /// # Safety
    /// - The range is mapped and open to `device` for writing, and no queued work uses it.
    /// - No stream of this process is being captured.
    unsafe fn write(&self, device: DeviceId, at: Address, from: &[u8]) -> Result<()>;

    /// Makes the CPU wait until all that this process has queued on any stream of `device` is done. A
    /// device without a context has nothing to wait for, and gets none; neither has the host.
    ///
    /// # Safety
    /// - No stream of the device is being captured: the driver would refuse, and the capture be broken.
    unsafe fn synchronize(&self, device: DeviceId) -> Result<()>;

    /// What stands for a handle outside this process, in the form of its `kind`. A handle that was created
    /// as another kind is refused, and so is `Private`.
    ///
    /// # Safety
    /// - `handle` is live.
    unsafe fn export(&self, handle: RawHandle, kind: HandleKind) -> Result<Shareable>;

    /// A handle for memory that another process (or this one) exported. It counts against no limit
    /// of this process; the memory lives until every process has released it.
    fn import(&self, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle>;
}
