//! `PyTorch`'s memory snapshots: what shape they have, read from and written to pickles.

mod key;
mod named;
mod reader;
mod record;
mod store;
mod writer;

pub(crate) use reader::read;
pub use writer::write_snapshot;

/// A pickle of protocol 2 or later opens with this byte.
pub(crate) const FIRST_BYTE: u8 = 0x80;
/// More devices than any process has: an ordinal beyond is damage.
const DEVICES_MAX: usize = 1024;
