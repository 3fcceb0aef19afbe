//! The C interface of the pool, whose face is `include/stitchpool.h`. It translates and decides nothing.
//!
//! From the bottom up: `status` and `refusal` say no; `place`, `record` and `pointer` are for what
//! the caller points at; `presence` and `table` make a handle that was closed a status and never a
//! fault; `raw_streams`, `relay` and the `shelves` are what an `open_pool` keeps for its callers;
//! `boundary` is the one place that a panic cannot cross; [`entry`] holds the functions. `fork` closes
//! all handles in a child; `process_pool` is what PyTorch's functions use, and `shared_pool` how the
//! Python face shares a pool with C.

mod boundary;
pub mod entry;
mod exit;
mod fork;
mod open_driver;
mod open_importer;
mod open_pool;
mod place;
mod pointer;
mod presence;
mod process_pool;
mod raw_streams;
mod record;
mod refusal;
mod relay;
pub mod shape;
mod shared_pool;
mod shelf;
mod shelves;
mod status;
mod table;
mod thread_word;

pub use boundary::{
    DriverHandle, ExporterHandle, GrowableHandle, HoldHandle, ImportHandle, ImporterHandle, LeaseHandle,
    ListenerHandle, OfferHandle, PinHandle, PoolHandle, ViewHandle,
};
pub use open_driver::OpenDriver;
pub use process_pool::{enter_arena, last_refusal, unknown_frees};
pub use refusal::Refusal;
pub use shape::{device_of, number_of};
pub use shared_pool::SharedPool;
pub use shelves::Shelved;
pub use status::Status;
