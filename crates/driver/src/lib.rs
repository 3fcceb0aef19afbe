//! The seam: what the pool needs of a driver, and the drivers that give it.
//!
//! [`Driver`] is the whole contract. [`cuda`] fulfils it with libcuda, [`host`] with pages of this
//! process, as strictly. [`Faulty`] and [`Metered`] are [`Wrapper`]s of any driver. Nothing in this crate decides
//! anything: no retry, no cache, no policy.

mod address;
mod cost;
pub mod cuda;
mod device;
mod driver;
mod error;
mod faulty;
mod handle;
pub mod host;
mod kernels;
mod metered;
mod rights;
mod shareable;
mod stream;
mod trouble;
mod verb;
mod wrapper;

pub use address::Address;
pub use cost::{CostTable, HandleCost};
pub use device::{DeviceId, DeviceInfo, DeviceMemory, Link, Uuid};
pub use driver::Driver;
pub use error::{Error, ErrorKind, Result};
pub use faulty::{Fault, Faulty};
pub use handle::{HandleKind, HandleSpec, RawHandle};
pub use kernels::{Kernels, Tally, pattern_word};
pub use metered::{Metered, Spent, VerbSpent};
pub use rights::{Grant, Rights};
pub use shareable::{FabricHandle, Shareable};
pub use stream::{Capture, RawEvent, RawStream};
pub use trouble::Trouble;
pub use verb::Verb;
pub use wrapper::Wrapper;
