//! The verbs of the seam, each one look-up in the state under its lock.

use super::HostDriver;
use super::span::Span;
use super::state::State;
use super::work::Work;
use crate::{
    Address, Capture, DeviceId, DeviceInfo, DeviceMemory, Driver, Error, ErrorKind, Grant, HandleKind, HandleSpec,
    Link, RawEvent, RawHandle, RawStream, Result, Rights, Shareable, Verb,
};
use std::ptr;
use std::time::Duration;

// The ledger checks every pre-condition itself, so the unsafe verbs are as safe as the others here.
impl Driver for HostDriver {
    fn name(&self) -> &'static str {
        "host"
    }

    fn now_us(&self) -> u64 {
        self.time.now_us()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(self.state.lock().books.places.infos())
    }

    fn memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        self.with(|state| Ok(state.books.places.get(Verb::Memory, device)?.memory()))
    }

    fn link(&self, from: DeviceId, to: DeviceId) -> Result<Link> {
        self.with(|state| {
            let places = &state.books.places;
            Ok(places.link(places.index(Verb::LinkBetween, from)?, places.index(Verb::LinkBetween, to)?))
        })
    }

    fn granularity(&self, device: DeviceId, _kind: HandleKind) -> Result<u64> {
        self.with(|state| Ok(state.books.places.get(Verb::Granularity, device)?.shape.granularity_bytes))
    }

    fn reserve(&self, bytes: u64, alignment: u64) -> Result<Address> {
        self.with(|state| state.books.reservations.reserve(bytes, alignment)).map(|span| Address(span.at))
    }

    unsafe fn unreserve(&self, at: Address, bytes: u64) -> Result<()> {
        self.with(|state| state.books.unreserve(Span { at: at.0, bytes }))
    }

    fn create(&self, spec: HandleSpec) -> Result<RawHandle> {
        self.with(|state| state.books.physicals.create(&mut state.books.places, spec))
    }

    unsafe fn release(&self, handle: RawHandle) -> Result<()> {
        self.with(|state| state.books.physicals.release(&mut state.books.places, handle))
    }

    unsafe fn map(&self, at: Address, bytes: u64, handle: RawHandle) -> Result<()> {
        self.with(|state| state.books.map(Span { at: at.0, bytes }, handle))
    }

    unsafe fn unmap(&self, at: Address, bytes: u64) -> Result<()> {
        self.with(|state| state.unmap(Span { at: at.0, bytes }))
    }

    unsafe fn set_rights(&self, at: Address, bytes: u64, grants: &[Grant]) -> Result<()> {
        self.with(|state| state.books.set_rights(Span { at: at.0, bytes }, grants))
    }

    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        self.with(|state| {
            let id = state.uncaptured(Verb::Record, stream)?;
            let point = state.queue(id, Work::Record);
            Ok(state.timeline.name_event(stream.device, point))
        })
    }

    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.with(|state| {
            let point = state.timeline.point(Verb::Wait, event)?;
            let id = state.uncaptured(Verb::Wait, stream)?;
            state.timeline.waits(id, event);
            state.queue(id, Work::Wait(point));
            Ok(())
        })
    }

    unsafe fn is_done(&self, event: RawEvent) -> Result<bool> {
        self.with(|state| {
            let point = state.timeline.point(Verb::IsDone, event)?;
            state.run_due();
            let is_done = state.timeline.is_passed(point);
            if is_done {
                state.timeline.cpu_saw(event);
            }
            Ok(is_done)
        })
    }

    unsafe fn finish(&self, event: RawEvent, limit: Duration) -> Result<()> {
        self.with(|state| {
            let point = state.timeline.point(Verb::Finish, event)?;
            state.run_due();
            state.run_until(point).map_err(|stuck| {
                let limit_ms = limit.as_millis();
                let detail = format!("stream {} stands still; {limit_ms} ms were allowed", stuck.value);
                Error::new(Verb::Finish, ErrorKind::Timeout, detail).on(stuck.device)
            })?;
            state.timeline.cpu_saw(event);
            Ok(())
        })
    }

    unsafe fn forget(&self, event: RawEvent) -> Result<()> {
        self.with(|state| state.timeline.forget(event))
    }

    unsafe fn capture(&self, stream: RawStream) -> Result<Capture> {
        self.with(|state| {
            let id = state.timeline.id(Verb::CaptureOf, stream)?;
            Ok(state.timeline.lane(id).capture)
        })
    }

    unsafe fn stream_identity(&self, stream: RawStream) -> Result<u64> {
        self.with(|state| Ok(state.timeline.id(Verb::StreamIdentity, stream)?.0))
    }

    unsafe fn copy(&self, stream: RawStream, to: Address, from: Address, bytes: u64) -> Result<()> {
        let (to, from) = (Span { at: to.0, bytes }, Span { at: from.0, bytes });
        self.with(|state| {
            demand_one_kind(state, to)?;
            demand_one_kind(state, from)?;
            if to.meets(from) {
                let detail = format!("source {:#x} and target {:#x} overlap", from.at, to.at);
                return Err(Error::new(Verb::Copy, ErrorKind::InvalidValue, detail).of(bytes));
            }
            let id = state.uncaptured(Verb::Copy, stream)?;
            state.queue(id, Work::Copy { to, from });
            Ok(())
        })
    }

    unsafe fn memset(&self, stream: RawStream, at: Address, bytes: u64, value: u8) -> Result<()> {
        let on = Span { at: at.0, bytes };
        self.with(|state| {
            demand_one_kind(state, on)?;
            let id = state.uncaptured(Verb::Memset, stream)?;
            state.queue(id, Work::Set { to: on, value });
            Ok(())
        })
    }

    unsafe fn read(&self, device: DeviceId, at: Address, into: &mut [u8]) -> Result<()> {
        let span = Span { at: at.0, bytes: into.len() as u64 };
        self.with(|state| {
            demand_one_kind(state, span)?;
            state.demand_quiet(Verb::Read, device, span, Rights::Read)?;
            // SAFETY: `demand_quiet` found every byte mapped and open to the device, and so to this process;
            // the lock keeps it so. `into` is the caller's own memory.
            unsafe { ptr::copy(ptr::with_exposed_provenance(at.0 as usize), into.as_mut_ptr(), into.len()) };
            Ok(())
        })
    }

    unsafe fn write(&self, device: DeviceId, at: Address, from: &[u8]) -> Result<()> {
        let span = Span { at: at.0, bytes: from.len() as u64 };
        self.with(|state| {
            demand_one_kind(state, span)?;
            state.demand_quiet(Verb::Write, device, span, Rights::ReadWrite)?;
            // SAFETY: as for `read`, for writing.
            unsafe { ptr::copy(from.as_ptr(), ptr::with_exposed_provenance_mut(at.0 as usize), from.len()) };
            Ok(())
        })
    }

    unsafe fn synchronize(&self, device: DeviceId) -> Result<()> {
        self.with(|state| {
            state.books.places.index(Verb::Synchronize, device)?;
            state.synchronize(device)
        })
    }

    unsafe fn export(&self, handle: RawHandle, kind: HandleKind) -> Result<Shareable> {
        self.with(|state| state.books.physicals.export(handle, kind))
    }

    fn import(&self, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle> {
        self.with(|state| state.books.physicals.import(&mut state.books.places, shareable, spec))
    }
}

/// Refuses a range that is not all mapped, or that crosses from host memory to device memory: a
/// copy over that seam has crashed CUDA.
fn demand_one_kind(state: &State, span: Span) -> Result<()> {
    let refused = |detail: String| Err(Error::new(Verb::Copy, ErrorKind::InvalidValue, detail).of(span.bytes));
    let books = &state.books;
    if let Some(why) = books.mappings.obstacle(span, Rights::None, |_| true) {
        return refused(why);
    }
    let mut kinds =
        books.mappings.over(span).map(|(at, mapping)| (at, books.physicals.place_of(mapping.memory).1.is_host()));
    let first = kinds.next();
    match kinds.find(|&(_, is_host)| first.is_some_and(|(_, before)| before != is_host)) {
        Some((seam, _)) => {
            refused(format!("host memory and device memory meet at {:#x}: split the copy there", seam.at))
        }
        None => Ok(()),
    }
}
