//! A block that frees itself.

use crate::error::Result;
use crate::pool::Pool;
use crate::request::{Block, Request};
use stitchpool_driver::Address;

/// A block that is freed, in its stream's order, when it is dropped. It keeps its pool alive.
#[derive(Debug)]
pub struct Buffer {
    pool: Pool,
    block: Block,
}

impl Buffer {
    /// Allocates one.
    ///
    /// # Errors
    /// As [`Pool::alloc`].
    pub fn new(pool: &Pool, request: &Request) -> Result<Self> {
        Ok(Self { block: pool.alloc(request)?, pool: pool.clone() })
    }

    /// Its first address.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.block.address
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.block.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Err(error) = self.pool.free(self.block.address) {
            tracing::warn!(%error, "a buffer was freed by somebody else");
        }
    }
}
