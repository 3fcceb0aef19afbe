//! The pool: alloc and free over stitched memory, in stream order, without external fragmentation.
//!
//! It knows no CUDA: all it asks for goes through the owners of `stitchpool-chunks`. From the bottom
//! up: `unit`, `scan`, `row`, `group`, `extents`, `stretch`, `live` and `free_log` are plain data; `inside` ties them
//! together, and a `heap` puts that behind a `latch`; `clock` and `order` know the streams; `chain`, `space` and
//! `budget` are what the `mapper` keeps; `candidate`, `planner` and `stitch` serve a miss; `engine` ties them
//! together and `pool` is the face.
//!
//! What is done to memory that stays at its address: a `scope` says to which, an `operation` takes it for
//! itself, its slots are `bed`s; `sleep`, `wake` and `swap` empty, fill and change them, `evict` decides who
//! sleeps. Content on its way out is `freight`, put on a `rack` of `tray`s, which `stowage` deals out, or on `disk`;
//! it waits in a `backup`. A `sleeper` gets an `incoming` handle and has `risen`.
#![deny(unsafe_code)]

mod arena;
mod backup;
mod batch;
mod bed;
mod budget;
mod buffer;
mod candidate;
mod capture;
mod chain;
mod check;
mod clock;
mod courier;
mod device_limits;
mod devices;
mod disk;
mod doubt;
mod engine;
mod error;
mod evict;
mod exclusive;
mod export;
mod extent;
mod extents;
mod fill;
mod free_log;
mod freight;
mod gather;
mod graph;
mod group;
mod growable;
mod heap;
mod holding;
mod holds;
mod incoming;
mod inside;
mod job;
#[allow(unsafe_code)]
mod latch;
mod later;
mod lease;
mod limits;
mod listener;
mod live;
mod loan;
mod look;
mod mapper;
mod market;
mod melt;
mod miss;
#[doc(hidden)]
pub mod mutant;
mod notice;
mod operation;
mod order;
mod overrides;
mod pending;
mod pin;
mod pins;
mod plan;
mod planner;
mod pool;
mod portion;
mod prometheus;
mod rack;
mod range;
mod read_ahead;
mod registry;
mod renew;
mod request;
mod rights;
mod risen;
mod row;
#[allow(unsafe_code)]
mod scan;
mod scope;
mod settings;
mod shortage;
mod site;
mod slack;
mod sleep;
mod sleeper;
mod slot;
mod space;
mod stats;
mod stitch;
mod stowage;
mod stretch;
mod survey;
mod swap;
mod taken;
mod tenant;
mod tick;
mod tray;
mod trim;
mod unfilled;
mod unit;
mod view;
mod visibility;
mod wake;

pub use arena::ArenaId;
pub use backup::Backup;
pub use buffer::Buffer;
pub use error::{Error, Holdings, Result, Shortage};
pub use export::{Export, ExportedPart};
pub use growable::Growable;
pub use lease::Lease;
pub use listener::{Interest, Listener, ListenerId};
pub use pin::Pin;
pub use pool::{Pool, Relief};
pub use range::Range;
pub use request::{Block, Request, StreamId};
pub use scope::Scope;
pub use settings::Settings;
pub use sleep::Suspended;
pub use stats::{DeviceStats, Stats};
pub use stitchpool_chunks::{Piece, Placement, Segment};
pub use survey::{SlotState, Survey, SurveyedHandle, SurveyedSlot};
pub use swap::Migrated;
pub use trim::Trimmed;
pub use view::{Part, View};
pub use wake::Resumed;
