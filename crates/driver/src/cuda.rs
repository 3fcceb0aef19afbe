//! The driver over libcuda: each verb is one call of NVIDIA's, its answer kept with the call's name.
//! It retries nothing and decides nothing. A device's context is made when something needs it and
//! not before; the caller's current context and capture mode are after each call what they were.

mod capture_mode;
mod context;
mod device;
mod event;
mod facts;
mod failure;
mod handle_kind;
mod identities;
mod kernels;
mod link;
mod location;
mod memory;
mod place;
mod stream;
mod workshop;

use crate::{
    Address, Capture, DeviceId, DeviceInfo, DeviceMemory, Driver, Error, ErrorKind, Grant, HandleKind, HandleSpec,
    Link, RawEvent, RawHandle, RawStream, Result, Rights, Shareable, Trouble, Verb,
};
use capture_mode::Relaxed;
use context::Entered;
use device::Device;
pub use facts::{CudaFacts, DeviceFacts};
use failure::call;
use identities::Identities;
use place::Place;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stitchpool_cuda_sys::{CU_MEM_ALLOC_GRANULARITY_MINIMUM, Cuda, OpenError};

/// The most grants that one call of `set_rights` takes.
const GRANTS_MAX: usize = 64;

// Sizes of the seam are u64 and the driver's are usize: without this they could be cut.
const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// NVIDIA's driver, by its library.
pub struct CudaDriver {
    cuda: Cuda,
    /// By ordinal.
    places: Vec<Place>,
    identities: Identities,
    opened: Instant,
}

impl CudaDriver {
    /// Loads the driver's library and lists the devices. Makes no context.
    ///
    /// # Errors
    /// `Unavailable` where there is no library, no device, or none that can map memory; the words
    /// say which, and what to do.
    pub fn open() -> Result<Arc<Self>> {
        let unavailable = |words: String| Error::new(Verb::Open, ErrorKind::Unavailable, words);
        let cuda = Cuda::open().map_err(|error| {
            let trouble = match error {
                OpenError::TooOld { .. } => Trouble::OldDriver,
                _ => Trouble::NoLibrary,
            };
            unavailable(format!("{error}; {}", trouble.see()))
        })?;
        // SAFETY: zero is the only flag there is.
        unsafe { call!(cuda, Verb::Open, cuInit(0)) }?;
        let devices = Device::list(&cuda)?;
        if !devices.iter().any(|device| device.maps_memory) {
            return Err(unavailable(format!(
                "none of the {} devices seen can map memory; this needs another GPU or driver, or the host driver; {}",
                devices.len(),
                Trouble::OldDriver.see()
            )));
        }
        Ok(Arc::new(Self {
            cuda,
            places: devices.into_iter().map(Place::new).collect(),
            identities: Identities::default(),
            opened: Instant::now(),
        }))
    }

    fn place(&self, verb: Verb, id: DeviceId) -> Result<&Place> {
        self.places.get(usize::from(id.0)).ok_or_else(|| {
            let detail = format!("this process sees {} devices, numbered from 0", self.places.len());
            Error::new(verb, ErrorKind::InvalidDevice, detail).on(id)
        })
    }

    /// Refuses a device that does not exist, where the driver would not or would not say which.
    fn check(&self, verb: Verb, id: DeviceId) -> Result<()> {
        if id.is_host() { Ok(()) } else { self.place(verb, id).map(drop) }
    }

    fn enter(&self, verb: Verb, id: DeviceId) -> Result<Entered<'_>> {
        self.place(verb, id)?.enter(&self.cuda, verb)
    }

    /// The context of a default stream, whose meaning depends on it; any other stream needs none.
    fn enter_if_default(&self, verb: Verb, stream: RawStream) -> Result<Option<Entered<'_>>> {
        stream::is_default(stream).then(|| self.enter(verb, stream.device)).transpose()
    }
}

impl Driver for CudaDriver {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn now_us(&self) -> u64 {
        self.opened.elapsed().as_micros() as u64
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(self.places.iter().map(|place| place.device.info.clone()).collect())
    }

    /// The driver tells a device's free bytes only inside its context, so this makes it.
    fn memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        if device.is_host() {
            return memory::of_host();
        }
        self.enter(Verb::Memory, device)?.memory().map_err(|error| error.on(device))
    }

    fn link(&self, from: DeviceId, to: DeviceId) -> Result<Link> {
        self.check(Verb::LinkBetween, from)?;
        self.check(Verb::LinkBetween, to)?;
        match (from, to) {
            _ if from == to => Ok(Link::Own),
            (_, DeviceId::HOST) => Ok(Link::Bus),
            // Device memory from `create` is never in the CPU's page tables.
            (DeviceId::HOST, _) => Ok(Link::None),
            _ => {
                let raw = |device| Ok(self.place(Verb::LinkBetween, device)?.device.raw);
                link::between(&self.cuda, raw(from)?, raw(to)?).map_err(|error| error.on(from))
            }
        }
    }

    fn granularity(&self, device: DeviceId, kind: HandleKind) -> Result<u64> {
        self.check(Verb::Granularity, device)?;
        let properties = handle_kind::properties_of(device, kind);
        let (mut bytes, option) = (0, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
        // SAFETY: `bytes` is a live place for the answer; `properties` is live and whole.
        unsafe { call!(self.cuda, Verb::Granularity, cuMemGetAllocationGranularity(&mut bytes, &properties, option)) }
            .map_err(|error| error.on(device))?;
        Ok(bytes as u64)
    }

    fn reserve(&self, bytes: u64, alignment: u64) -> Result<Address> {
        let mut at = 0;
        // SAFETY: `at` is a live place for the answer; no hint, no flags.
        unsafe {
            call!(self.cuda, Verb::Reserve, cuMemAddressReserve(&mut at, bytes as usize, alignment as usize, 0, 0))
        }
        .map_err(|error| error.of(bytes))?;
        Ok(Address(at))
    }

    unsafe fn unreserve(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller answers for the range.
        unsafe { call!(self.cuda, Verb::Unreserve, cuMemAddressFree(at.0, bytes as usize)) }
            .map_err(|error| error.of(bytes))
    }

    fn create(&self, spec: HandleSpec) -> Result<RawHandle> {
        self.check(Verb::Create, spec.device).map_err(|error| error.of(spec.bytes))?;
        let properties = handle_kind::properties_of(spec.device, spec.kind);
        let mut handle = 0;
        // SAFETY: `handle` is a live place for the answer; `properties` is live and whole.
        unsafe { call!(self.cuda, Verb::Create, cuMemCreate(&mut handle, spec.bytes as usize, &properties, 0)) }
            .map_err(|error| error.on(spec.device).of(spec.bytes))?;
        Ok(RawHandle(handle))
    }

    unsafe fn release(&self, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller answers for `handle`; a stale one would crash inside the driver.
        unsafe { call!(self.cuda, Verb::Release, cuMemRelease(handle.0)) }
    }

    unsafe fn map(&self, at: Address, bytes: u64, handle: RawHandle) -> Result<()> {
        // SAFETY: the caller answers for the range and for `handle`; a stale one would crash inside the driver.
        unsafe { call!(self.cuda, Verb::Map, cuMemMap(at.0, bytes as usize, 0, handle.0, 0)) }
            .map_err(|error| error.of(bytes))
    }

    unsafe fn unmap(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: the caller answers for the range, and that no work uses it.
        unsafe { call!(self.cuda, Verb::Unmap, cuMemUnmap(at.0, bytes as usize)) }.map_err(|error| error.of(bytes))
    }

    unsafe fn set_rights(&self, at: Address, bytes: u64, grants: &[Grant]) -> Result<()> {
        if grants.len() > GRANTS_MAX {
            let detail = format!("{} grants in one call, the limit is {GRANTS_MAX}; give them in parts", grants.len());
            return Err(Error::new(Verb::SetRights, ErrorKind::InvalidValue, detail).of(bytes));
        }
        let mut rights = [location::access_of(Grant { device: DeviceId::HOST, rights: Rights::None }); GRANTS_MAX];
        for (right, grant) in rights.iter_mut().zip(grants) {
            self.check(Verb::SetRights, grant.device).map_err(|error| error.of(bytes))?;
            *right = location::access_of(*grant);
        }
        // SAFETY: as many of `rights` were written as there are grants; the caller answers for the range.
        let set = unsafe {
            call!(self.cuda, Verb::SetRights, cuMemSetAccess(at.0, bytes as usize, rights.as_ptr(), grants.len()))
        };
        set.map_err(|error| match grants {
            [only] => error.of(bytes).on(only.device),
            _ => error.of(bytes),
        })
    }

    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        let entered = self.enter(Verb::Record, stream.device)?;
        // SAFETY: the caller answers for `stream`; its context was entered.
        unsafe { entered.record(stream) }.map_err(|error| error.on(stream.device))
    }

    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let entered = self.enter(Verb::Wait, stream.device)?;
        // SAFETY: the caller answers for both; the stream's context was entered.
        unsafe { entered.wait(stream, event) }.map_err(|error| error.on(stream.device))
    }

    unsafe fn is_done(&self, event: RawEvent) -> Result<bool> {
        let relaxed = Relaxed::enter(&self.cuda, Verb::IsDone)?;
        // SAFETY: the caller answers for `event`.
        unsafe { relaxed.is_done(event, Verb::IsDone) }.map_err(|error| error.on(event.device))
    }

    unsafe fn finish(&self, event: RawEvent, limit: Duration) -> Result<()> {
        let relaxed = Relaxed::enter(&self.cuda, Verb::Finish)?;
        // SAFETY: the caller answers for `event`.
        unsafe { relaxed.finish(event, limit) }.map_err(|error| error.on(event.device))
    }

    unsafe fn forget(&self, event: RawEvent) -> Result<()> {
        let relaxed = Relaxed::enter(&self.cuda, Verb::Forget)?;
        // SAFETY: the caller answers for `event`.
        unsafe { relaxed.forget(event) }.map_err(|error| error.on(event.device))
    }

    unsafe fn capture(&self, stream: RawStream) -> Result<Capture> {
        let _entered = self.enter_if_default(Verb::CaptureOf, stream)?;
        // SAFETY: the caller answers for `stream`; where it needs its context, that was entered.
        unsafe { stream::capture(&self.cuda, stream) }.map_err(|error| error.on(stream.device))
    }

    unsafe fn stream_identity(&self, stream: RawStream) -> Result<u64> {
        let _entered = self.enter_if_default(Verb::StreamIdentity, stream)?;
        // SAFETY: the caller answers for `stream`; where it needs its context, that was entered.
        let captured = unsafe { stream::capture(&self.cuda, stream) }.map_err(|error| error.on(stream.device))?;
        if captured != Capture::None {
            // Not asked, for that would break the capture. A stream that is captured lives, so the number that
            // was noted last for its value is its own, if it was asked for since the value came to it.
            return Ok(self.identities.of(stream).unwrap_or_else(|| stream::identity_of_value(stream)));
        }
        // SAFETY: as above, and the stream is not being captured.
        let identity = unsafe { stream::identity(&self.cuda, stream) }.map_err(|error| error.on(stream.device))?;
        self.identities.note(stream, identity);
        Ok(identity)
    }

    unsafe fn copy(&self, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()> {
        let entered = self.enter(Verb::Copy, stream.device)?;
        // SAFETY: the caller answers for the stream and both ranges.
        unsafe { entered.copy(stream, to, from, bytes) }.map_err(|error| error.on(stream.device).of(bytes))
    }

    unsafe fn memset(&self, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()> {
        let entered = self.enter(Verb::Memset, stream.device)?;
        // SAFETY: the caller answers for the stream and the range.
        unsafe { entered.memset(stream, at, bytes, value) }.map_err(|error| error.on(stream.device).of(bytes))
    }

    unsafe fn read(&self, device: DeviceId, at: Address, into: &mut [u8]) -> Result<()> {
        let entered = self.enter(Verb::Read, device)?;
        // SAFETY: the caller answers for the range.
        unsafe { entered.read(at, into) }.map_err(|error| error.on(device).of(into.len() as u64))
    }

    unsafe fn write(&self, device: DeviceId, at: Address, from: &[u8]) -> Result<()> {
        let entered = self.enter(Verb::Write, device)?;
        // SAFETY: the caller answers for the range.
        unsafe { entered.write(at, from) }.map_err(|error| error.on(device).of(from.len() as u64))
    }

    unsafe fn synchronize(&self, device: DeviceId) -> Result<()> {
        if device.is_host() {
            return Ok(());
        }
        let place = self.place(Verb::Synchronize, device)?;
        if !context::is_active(&self.cuda, place.device.raw).map_err(|error| error.on(device))? {
            return Ok(());
        }
        let entered = place.enter(&self.cuda, Verb::Synchronize)?;
        // SAFETY: a context is current: `entered` proves it; the caller answers for captures.
        unsafe { entered.synchronize() }.map_err(|error| error.on(device))
    }

    unsafe fn export(&self, handle: RawHandle, kind: HandleKind) -> Result<Shareable> {
        // SAFETY: the caller answers for `handle`.
        unsafe { handle_kind::export(&self.cuda, handle, kind) }
    }

    fn import(&self, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle> {
        self.check(Verb::Import, spec.device)
            .and_then(|()| handle_kind::import(&self.cuda, shareable, spec))
            .map_err(|error| error.on(spec.device).of(spec.bytes))
    }
}

impl Drop for CudaDriver {
    fn drop(&mut self) {
        for place in &mut self.places {
            place.clear(&self.cuda);
        }
    }
}

impl fmt::Debug for CudaDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.places.iter().map(|place| &place.device.info)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_or_a_device_is_told_so_and_what_to_do() {
        match CudaDriver::open() {
            Ok(driver) => assert!(driver.devices().is_ok_and(|devices| !devices.is_empty())),
            Err(error) => {
                assert_eq!((error.kind, error.verb), (ErrorKind::Unavailable, Verb::Open), "{error}");
                assert!(["install", "check", "host driver"].iter().any(|word| error.detail.contains(word)), "{error}");
            }
        }
    }
}
