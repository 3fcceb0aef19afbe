//! The driver that stitches memory of this process: real bytes behind real addresses, no GPU.
//!
//! A device is a sparse file, a physical handle a run of it, a reservation a range of this process's
//! addresses. A strict ledger refuses all that CUDA refuses, and all that CUDA answers with a crash.
//! It decides nothing, and is never kinder than CUDA.

mod accesses;
mod ballast;
mod books;
mod capture;
mod config;
mod fabric;
mod hand;
mod kernels;
mod lane;
mod ledger;
mod mappings;
mod opened;
mod order;
mod physical;
mod place;
mod point;
mod reservations;
mod span;
mod state;
mod store;
mod time;
mod timeline;
mod verbs;
mod work;

pub use capture::HostGraph;
pub use config::{Clock, HostConfig, HostDevice, Peers, Quirks, StreamMode};
pub use ledger::Ledger;

use crate::{Address, DeviceId, Error, ErrorKind, Result, Rights, Verb};
use parking_lot::Mutex;
use span::Span;
use state::State;
use std::sync::Arc;
use std::{process, ptr};
use time::Time;

/// A driver without a GPU. Streams run as its [`HostConfig`] says; a test moves them by hand with
/// `advance`, `run`, `set_now_us` and `stall`.
///
/// Memory costs this machine nothing until somebody writes or reads it; whoever uses more of it than
/// the machine has is ended by the system.
///
/// Default streams (value 0) order nothing but themselves: weaker than CUDA's, so what is right here
/// is right there.
/// As CUDA does, it refuses everything in the child of a fork: what it has is its process's.
#[derive(Debug)]
pub struct HostDriver {
    state: Mutex<State>,
    time: Arc<Time>,
    /// The process that made it.
    process: u32,
}

impl HostDriver {
    /// Makes the devices that `config` describes.
    ///
    /// # Errors
    /// `InvalidValue` where the description contradicts itself; `OutOfResources` where the system
    /// gives no file for a device's memory.
    pub fn new(config: HostConfig) -> Result<Arc<Self>> {
        let time = Arc::new(Time::new(config.clock));
        let state = Mutex::new(State::open(&config, Arc::clone(&time))?);
        Ok(Arc::new(Self { state, time, process: process::id() }))
    }

    /// What the driver holds for its caller now.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.state.lock().ledger()
    }

    /// Sets how many bytes of a device other processes hold.
    ///
    /// # Errors
    /// `OutOfMemory` where this process leaves them less; `InvalidDevice`.
    pub fn outside(&self, device: DeviceId, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        let place = state.books.places.get_mut(Verb::Memory, device)?;
        let left_bytes = place.shape.capacity_bytes - place.used_bytes;
        if bytes > left_bytes {
            let detail = format!("other processes can hold {left_bytes} bytes at most");
            return Err(Error::new(Verb::Memory, ErrorKind::OutOfMemory, detail).on(device).of(bytes));
        }
        place.outside_bytes = bytes;
        Ok(())
    }

    /// Reads what lies at `at` now, whatever is queued on streams.
    ///
    /// # Errors
    /// `IllegalAddress` where a byte is not mapped, or open to no device.
    pub fn peek(&self, at: Address, into: &mut [u8]) -> Result<()> {
        let state = self.state.lock();
        demand_open(&state, at, into.len(), Rights::Read)?;
        // SAFETY: `demand_open` found every byte mapped and readable, and the lock keeps it so.
        unsafe { ptr::copy(ptr::with_exposed_provenance(at.0 as usize), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Writes `bytes` at `at` now, whatever is queued on streams.
    ///
    /// # Errors
    /// `IllegalAddress` where a byte is not mapped, or open for writing to no device.
    pub fn poke(&self, at: Address, bytes: &[u8]) -> Result<()> {
        let state = self.state.lock();
        demand_open(&state, at, bytes.len(), Rights::ReadWrite)?;
        // SAFETY: `demand_open` found every byte mapped and writable, and the lock keeps it so.
        unsafe { ptr::copy(bytes.as_ptr(), ptr::with_exposed_provenance_mut(at.0 as usize), bytes.len()) };
        Ok(())
    }

    /// Does something with the state, and counts its refusal.
    fn with<T>(&self, ask: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        if process::id() != self.process {
            // A thread that is not here may have had the lock at the fork.
            let detail = "it belongs to the process that this one was forked from; open one here";
            return Err(Error::new(Verb::Open, ErrorKind::Deinitialized, detail));
        }
        let mut state = self.state.lock();
        ask(&mut state).inspect_err(|error| state.count_refusal(error))
    }
}

fn demand_open(state: &State, at: Address, bytes: usize, needs: Rights) -> Result<()> {
    let span = Span { at: at.0, bytes: bytes as u64 };
    match state.books.mappings.obstacle(span, needs, |mapping| mapping.opened.allows_anybody(needs)) {
        Some(why) => Err(Error::new(Verb::Kernel, ErrorKind::IllegalAddress, why).of(span.bytes)),
        None => Ok(()),
    }
}
