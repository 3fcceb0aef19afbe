//! The pool: alloc and free over stitched memory, in stream order, without external fragmentation.
//!
//! It knows no CUDA: all it asks for goes through the owners of `stitchpool-chunks`. From the bottom
//! up: `unit`, `scan`, `row`, `group`, `extents`, `live` and `free_log` are plain data; a `heap`
//! puts them under one lock; `clock` and `order` know the streams; `chain`, `space` and `budget` are what the
//! `mapper` keeps; `candidate`, `planner` and `stitch` serve a miss; `engine` ties them together
//! and `pool` is the face.
#![deny(unsafe_code)]

mod budget;
mod buffer;
mod candidate;
mod chain;
mod check;
mod clock;
mod engine;
mod error;
mod extents;
mod free_log;
mod gather;
mod group;
mod heap;
mod job;
mod limits;
mod live;
mod mapper;
mod market;
mod miss;
#[doc(hidden)]
pub mod mutant;
mod order;
mod plan;
mod planner;
mod pool;
mod range;
mod registry;
mod renew;
mod request;
mod row;
#[allow(unsafe_code)]
mod scan;
mod settings;
mod shortage;
mod site;
mod slack;
mod space;
mod stats;
mod stitch;
mod taken;
mod tick;
mod trim;
mod unit;

pub use buffer::Buffer;
pub use error::{Error, Holdings, Result, Shortage};
pub use pool::{Pool, Relief};
pub use range::Range;
pub use request::{Block, Request, StreamId};
pub use settings::Settings;
pub use stats::{DeviceStats, Stats};
pub use stitchpool_chunks::{Piece, Placement, Segment};
pub use trim::Trimmed;
