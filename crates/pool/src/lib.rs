//! The pool: alloc and free over stitched memory, in stream order, without external fragmentation.
//!
//! It knows no CUDA: all it asks for goes through the owners of `stitchpool-chunks`. From the bottom up:
//! - `heap`: what a hit touches. Inside a heap its free `extents`, its `live` blocks and its log of frees are plain
//!   data; `inside` ties them together, behind a `latch`. `clock` and `order` know the streams.
//! - `mapper`: what stands behind the heaps, under one lock: `chain`s of `slot`s, addresses (`space`), budgets, backups.
//! - `miss`: how a request is served that found no free extent: a `job`, its `plan`, the `stitch`, the last `resort`s.
//! - `operation`: what is done to memory that stays at its address. A `scope` says to which; an operation takes it for
//!   itself, its slots are `bed`s; `sleep`, `wake` and `swap` empty, fill and change them, `evict` decides who sleeps.
//!   Content on its way out is `freight`, put on a `rack` of trays; a `sleeper` gets an `incoming` handle and has `risen`.
//!
//! `engine` is what all of them share, and `pool` is the face.
#![deny(unsafe_code)]

mod arena;
mod background;
mod buffer;
mod capture;
mod check;
mod clock;
mod device_limits;
mod devices;
mod engine;
mod error;
mod evict;
mod export;
mod graph;
mod grip;
mod growable;
mod heap;
mod holdings;
mod lease;
mod limits;
mod listener;
mod look;
mod mapper;
mod miss;
#[doc(hidden)]
pub mod mutant;
mod notice;
mod operation;
mod order;
mod peers;
mod pin;
mod pool;
mod prometheus;
mod range;
mod registry;
mod request;
mod rights;
mod scope;
mod settings;
mod shortage;
mod stats;
mod survey;
mod tick;
mod trim;
mod unit;
mod view;

pub use arena::ArenaId;
pub use buffer::Buffer;
pub use error::{Error, Result};
pub use export::{Export, ExportedPart};
pub use growable::Growable;
pub use holdings::Holdings;
pub use lease::Lease;
pub use listener::{Interest, Listener, ListenerId};
pub use mapper::backup::Backup;
pub use operation::sleep::Suspended;
pub use operation::swap::Migrated;
pub use operation::wake::Resumed;
pub use pin::Pin;
pub use pool::{Pool, Relief};
pub use range::Range;
pub use request::{Block, Request, StreamId};
pub use scope::Scope;
pub use settings::Settings;
pub use shortage::Shortage;
pub use stats::{DeviceStats, Stats};
pub use stitchpool_chunks::{Piece, Placement, Segment};
pub use survey::{SlotState, Survey, SurveyedHandle, SurveyedSlot};
pub use trim::Trimmed;
pub use view::{Part, View};
