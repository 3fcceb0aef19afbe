//! The chunk manager: owners of physical memory and addresses, and ranges stitched from them.
//!
//! An owner is the only holder of a thing the driver made; moving it is the state change. This crate
//! knows no block, no size class and no lock but the one around the quarantine.

mod content;
mod error;
mod event;
mod mapping;
mod origin;
mod physical_handle;
mod picture;
mod placement;
mod quarantine;
mod reservation;
mod run;
mod segment;
mod stitched_range;
mod stock;

pub use content::{copy, memset, read, synchronize, write};
pub use error::{Error, Result};
pub use event::{Event, capture_of, stream_identity};
pub use mapping::Mapping;
pub use origin::Origin;
pub use physical_handle::PhysicalHandle;
pub use picture::picture;
pub use placement::{Piece, Placement};
pub use quarantine::{Quarantine, Quarantined, QuarantinedKind};
pub use reservation::{Reservation, Vacancy};
pub use run::{RunFailure, join_all, map_run, map_run_by, open, take_down};
pub use segment::Segment;
pub use stitched_range::{RangeSpec, StitchedRange};
pub use stock::Stock;
