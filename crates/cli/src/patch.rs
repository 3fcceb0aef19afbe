//! Memory and streams of the program's own, outside of any pool, for trials and measurements. Every
//! call here waits until what it queued is done, so that memory never goes under work.

use crate::session::Session;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stitchpool_chunks::{Origin, PhysicalHandle, RangeSpec, StitchedRange};
use stitchpool_driver::{
    Capture, DeviceId, Driver, Error, ErrorKind, Grant, HandleKind, HandleSpec, Kernels, RawStream, Result, Rights,
    Verb,
};

/// A stream of a device.
pub struct Strand {
    raw: RawStream,
    driver: Arc<dyn Driver>,
    kernels: Arc<dyn Kernels>,
}

/// A stitched range that is full, with the rights that devices have on all of it.
pub struct Patch {
    range: StitchedRange,
    /// Subset of what the driver was told: only raised, or lowered while no work is queued.
    grants: Vec<Grant>,
}

impl Patch {
    /// Stitches handles one behind the other, open to `users` for reading and writing.
    pub fn of(
        origin: &Arc<Origin>,
        handles: Vec<Arc<PhysicalHandle>>,
        users: &[DeviceId],
    ) -> stitchpool_chunks::Result<Self> {
        let bytes = handles.iter().map(|handle| handle.bytes()).sum();
        let granule_bytes = granule(origin, handles.iter().map(|handle| handle.device()))?;
        let spec = RangeSpec { bytes, granule_bytes, handle_bytes: granule_bytes, kind: HandleKind::Private };
        let grants: Vec<Grant> = users.iter().map(|&device| Grant { device, rights: Rights::ReadWrite }).collect();
        let mut range = StitchedRange::reserve(origin, spec)?;
        range.stitch_handles(0, handles, &grants)?;
        Ok(Self { range, grants })
    }

    /// Both ends of each handle, as offset and bytes: who has seen them has seen every handle in its place, however
    /// large it is.
    pub fn ends(&self) -> stitchpool_chunks::Result<Vec<(u64, u64)>> {
        let segments = self.range.segments(0, self.bytes())?;
        let ends = segments.into_iter().flat_map(|segment| {
            let first = segment.at.bytes_from(self.range.at());
            let bytes = END_BYTES.min(segment.bytes / 2);
            [(first, bytes), (first + segment.bytes - bytes, bytes)]
        });
        Ok(ends.collect())
    }

    /// How long it is.
    pub const fn bytes(&self) -> u64 {
        self.range.bytes()
    }

    /// Puts other memory of the same size behind it. The old handles come back.
    pub fn replace(
        &mut self,
        handles: Vec<Arc<PhysicalHandle>>,
    ) -> stitchpool_chunks::Result<Vec<Arc<PhysicalHandle>>> {
        self.range.replace(0, handles)
    }

    /// Changes what a device may do with it.
    pub fn open(&mut self, grant: Grant) -> stitchpool_chunks::Result<()> {
        self.range.open(0, self.bytes(), &[grant])?;
        self.grants.retain(|held| held.device != grant.device);
        self.grants.push(grant);
        Ok(())
    }

    fn demand(&self, strand: &Strand, needs: Rights) -> Result<()> {
        let device = strand.raw.device;
        let held = self.grants.iter().find(|grant| grant.device == device).map_or(Rights::None, |grant| grant.rights);
        let is_full = self.range.grown_bytes() == self.bytes();
        if is_full && held >= needs {
            return Ok(());
        }
        let detail = format!("the patch at {} is open to {device} as {held:?} and not as {needs:?}", self.range.at());
        Err(Error::new(Verb::Kernel, ErrorKind::IllegalAddress, detail).on(device))
    }
}

/// So much of each end of a handle is looked at. (All of every handle, for each pair of 63 devices, would be 60 GiB.)
const END_BYTES: u64 = 16 << 10;

/// The coarsest granularity of these devices: what a range over all of them is counted in.
fn granule(origin: &Origin, devices: impl Iterator<Item = DeviceId>) -> Result<u64> {
    devices
        .map(|device| origin.driver().granularity(device, HandleKind::Private))
        .try_fold(1, |most, next| next.map(|bytes| bytes.max(most)))
}

impl Strand {
    /// A new stream of the device.
    pub fn open(session: &Session, device: DeviceId) -> Result<Self> {
        let (driver, kernels) = (session.driver.clone(), session.kernels.clone());
        Ok(Self { raw: kernels.create_stream(device)?, driver, kernels })
    }

    /// The driver's own name of it.
    pub const fn raw(&self) -> RawStream {
        self.raw
    }

    /// Writes the pattern of `seed` over all of the patch, so many times, and says how long that took.
    pub fn fill(&self, patch: &Patch, seed: u64, times: u32) -> Result<Duration> {
        patch.demand(self, Rights::ReadWrite)?;
        let (at, bytes) = (patch.range.at(), patch.bytes());
        // SAFETY: `demand` found the patch full and open; it outlives this call, which waits for the work.
        self.run(times, || unsafe { self.kernels.fill(self.raw, at, bytes, seed) })
    }

    /// Reads all of the patch and compares it with the pattern of `seed`, so many times. What differed is
    /// in the tally.
    pub fn verify(&self, patch: &Patch, seed: u64, times: u32) -> Result<Duration> {
        patch.demand(self, Rights::Read)?;
        let (at, bytes) = (patch.range.at(), patch.bytes());
        // SAFETY: as for `fill`, for reading.
        self.run(times, || unsafe { self.kernels.verify(self.raw, at, bytes, seed) })
    }

    /// Writes patterns of `seed` at both ends of each handle.
    pub fn fill_ends(&self, patch: &Patch, seed: u64) -> stitchpool_chunks::Result<()> {
        patch.demand(self, Rights::ReadWrite)?;
        for (offset, bytes) in patch.ends()? {
            let at = patch.range.at() + offset;
            // SAFETY: as for `fill`.
            self.run(1, || unsafe { self.kernels.fill(self.raw, at, bytes, seed ^ offset) })?;
        }
        Ok(())
    }

    /// Reads both ends of each handle and compares them with what [`Strand::fill_ends`] wrote there. What differed is
    /// in the tally. Gives how many bytes that were.
    pub fn verify_ends(&self, patch: &Patch, seed: u64) -> stitchpool_chunks::Result<u64> {
        patch.demand(self, Rights::Read)?;
        let mut read_bytes = 0;
        for (offset, bytes) in patch.ends()? {
            let at = patch.range.at() + offset;
            // SAFETY: as for `fill`, for reading.
            self.run(1, || unsafe { self.kernels.verify(self.raw, at, bytes, seed ^ offset) })?;
            read_bytes += bytes;
        }
        Ok(read_bytes)
    }

    /// Copies all of one patch over another of the same size, so many times.
    pub fn copy(&self, to: &Patch, from: &Patch, times: u32) -> Result<Duration> {
        to.demand(self, Rights::ReadWrite)?;
        from.demand(self, Rights::Read)?;
        let bytes = to.bytes().min(from.bytes());
        // SAFETY: as for `fill`, for both patches.
        self.run(times, || unsafe { self.driver.copy(self.raw, to.range.at(), from.range.at(), bytes) })
    }

    /// The driver's number of the stream.
    pub fn identity(&self) -> Result<u64> {
        // SAFETY: `self.raw` lives as long as `self`.
        unsafe { self.driver.stream_identity(self.raw) }
    }

    /// Whether the stream is being captured.
    pub fn capture(&self) -> Result<Capture> {
        // SAFETY: `self.raw` lives as long as `self`.
        unsafe { self.driver.capture(self.raw) }
    }

    /// Queues something so many times and waits for all that was queued, also after a refusal.
    fn run(&self, times: u32, queue: impl Fn() -> Result<()>) -> Result<Duration> {
        let start = Instant::now();
        let queued = (0..times).try_for_each(|_| queue());
        // SAFETY: `self.raw` lives as long as `self`.
        let finished = unsafe { self.kernels.finish_stream(self.raw) };
        queued.and(finished)?;
        Ok(start.elapsed())
    }
}

impl Drop for Strand {
    fn drop(&mut self) {
        // SAFETY: `self.raw` came from `create_stream` and is not named again. On the way down nobody can
        // act on a refusal.
        let _ = unsafe { self.kernels.destroy_stream(self.raw) };
    }
}

/// Exports a new handle of one granule as a file descriptor, imports that again, and releases both.
pub fn pass_round(origin: &Arc<Origin>, device: DeviceId) -> Result<()> {
    let (driver, kind) = (origin.driver(), HandleKind::FileDescriptor);
    let spec = HandleSpec { device, bytes: driver.granularity(device, kind)?, kind };
    let handle = PhysicalHandle::create(origin, spec)?;
    PhysicalHandle::import(origin, &handle.export()?, spec).map(drop)
}
