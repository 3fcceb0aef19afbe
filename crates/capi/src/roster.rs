//! The streams of one pool by number: read without a lock, never shortened.

use crate::refusal::{Refusal, Result};
use crate::status::Status;
use parking_lot::Mutex;
use std::sync::OnceLock;
use stitchpool_pool::StreamId;

/// A row of the roster has so many places, and the roster so many rows.
const ROW: usize = 1024;

/// Places that are filled once, front to back.
type Places<T> = Box<[OnceLock<T>]>;

/// Numbers for streams. A number begins with its pool's, so that another pool's is not taken for one.
pub(crate) struct Roster {
    pool: u32,
    used: Mutex<u32>,
    rows: Places<Places<StreamId>>,
}

fn empty<T>() -> Places<T> {
    (0..ROW).map(|_| OnceLock::new()).collect()
}

impl Roster {
    pub(crate) fn new(pool: u32) -> Self {
        Self { pool, used: Mutex::new(0), rows: empty() }
    }

    /// Gives a stream a number; never 0.
    pub(crate) fn enter(&self, stream: StreamId) -> Result<u64> {
        let mut used = self.used.lock();
        let index = *used as usize;
        let row = self.rows.get(index / ROW).ok_or_else(|| {
            let words = format!("{used} streams were registered with this pool, the limit: open a new pool");
            Refusal::new(Status::TooMany, words)
        })?;
        row.get_or_init(empty)[index % ROW].get_or_init(|| stream);
        *used += 1;
        Ok(u64::from(self.pool) << 32 | u64::from(*used))
    }

    /// The stream of a number.
    #[inline]
    pub(crate) fn find(&self, number: u64) -> Result<StreamId> {
        let index = (number as u32).wrapping_sub(1) as usize;
        let row = self.rows.get(index / ROW).and_then(OnceLock::get);
        match row.and_then(|row| row[index % ROW].get()) {
            Some(stream) if number >> 32 == u64::from(self.pool) => Ok(*stream),
            _ => Err(unknown(number)),
        }
    }
}

#[cold]
fn unknown(number: u64) -> Refusal {
    let words = format!("{number:#x} is not a stream of this pool: register it with this pool first");
    Refusal::new(Status::UnknownStream, words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::open_pool::tests::pool_on_host;
    use stitchpool_driver::{DeviceId, RawStream};

    #[test]
    fn a_number_finds_its_own_stream_in_its_own_pool_only() {
        let pool = pool_on_host();
        let stream = || pool.register(RawStream { device: DeviceId(0), value: 0 }).unwrap();
        let (mine, theirs) = (Roster::new(7), Roster::new(8));
        let streams: Vec<StreamId> = (0..3).map(|_| stream()).collect();
        let numbers: Vec<u64> = streams.iter().map(|stream| mine.enter(*stream).unwrap()).collect();
        for (number, stream) in numbers.iter().zip(&streams) {
            assert_eq!(mine.find(*number).unwrap(), *stream);
            assert_eq!(theirs.find(*number).unwrap_err().status, Status::UnknownStream);
        }
        for number in [0, 7 << 32, numbers[2] + 1, u64::MAX] {
            assert_eq!(mine.find(number).unwrap_err().status, Status::UnknownStream);
        }
    }

    #[test]
    fn the_roster_grows_by_rows_and_ends_with_a_refusal() {
        let pool = pool_on_host();
        let stream = pool.register(RawStream { device: DeviceId(0), value: 0 }).unwrap();
        let roster = Roster::new(1);
        for _ in 0..=ROW {
            roster.enter(stream).unwrap();
        }
        assert!(roster.find(1 << 32 | (ROW as u64 + 1)).is_ok());
        *roster.used.lock() = (ROW * ROW) as u32;
        assert_eq!(roster.enter(stream).unwrap_err().status, Status::TooMany);
    }
}
