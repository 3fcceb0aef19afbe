//! The owner of a pin: while it lives, the handles behind a range stay where they are.

use crate::engine::Engine;
use crate::error::Result;
use std::fmt;
use std::sync::Arc;
use stitchpool_driver::Address;

/// Handles that nobody takes from their place while this lives. It keeps the pool's memory alive.
#[must_use = "the handles are pinned only while this lives"]
pub struct Pin {
    engine: Arc<Engine>,
    /// Multiples of the granule.
    start: u64,
    end: u64,
}

impl Pin {
    pub(crate) fn new(engine: Arc<Engine>, address: Address, bytes: u64) -> Result<Self> {
        let granule_bytes = engine.granule_bytes();
        let mut mapper = engine.mapper.lock();
        engine.demand_inside(address, bytes)?;
        let start = address.0 - address.0 % granule_bytes;
        let end = (address.0 + bytes).next_multiple_of(granule_bytes);
        mapper.pins.add(start, end, granule_bytes);
        drop(mapper);
        Ok(Self { engine, start, end })
    }

    /// The first address whose handle is pinned.
    #[must_use]
    pub const fn address(&self) -> Address {
        Address(self.start)
    }

    /// How many bytes of addresses are pinned: whole granules.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.engine.mapper.lock().pins.remove(self.start, self.end, self.engine.granule_bytes());
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("address", &self.address()).field("bytes", &self.bytes()).finish()
    }
}
