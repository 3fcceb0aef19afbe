//! Reads and writes recorded allocation traces. Knows no pool, no driver and no other crate here.
//!
//! [`Trace::open`] takes a `PyTorch` memory snapshot (a pickle of plain data) or an RMM log (CSV),
//! either bare or packed with gzip, xz or zstd. [`Trace::steps`] turns a device's record into the
//! form that a replay plays. [`write_snapshot`] writes what `PyTorch`'s viewer opens.
//!
//! ```no_run
//! use stitchpool_trace::{Limits, Trace};
//!
//! let trace = Trace::open("run.pickle.gz", &Limits::default())?;
//! for device in &trace.devices {
//!     let steps = device.steps();
//!     println!("device {}: {} steps, {} bytes live at most", device.device, steps.steps.len(), steps.peak_live_bytes);
//! }
//! # Ok::<(), stitchpool_trace::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bytes;
mod error;
mod event;
mod limits;
mod open;
mod pickle;
mod progress;
mod reserved;
mod rmm;
mod segment;
mod snapshot;
mod steps;
mod trace;
mod unpack;

pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventKind};
pub use limits::Limits;
pub use progress::Progress;
pub use reserved::Reserved;
pub use segment::{Block, BlockState, Segment};
pub use snapshot::write_snapshot;
pub use steps::{InitialBlock, Op, Step, Steps};
pub use trace::{DeviceTrace, Source, SourceKind, Trace};
