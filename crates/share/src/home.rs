//! The process that a thing was made in. Sockets and mappings cross a fork, and what they mean does not: in a
//! child they are left alone.

use crate::error::{Error, Result};

/// A process, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pid: u32,
}

impl Home {
    /// This process.
    pub(crate) fn here() -> Self {
        Self { pid: std::process::id() }
    }

    /// Whether this is still the process, and no child that was forked off it.
    pub(crate) fn is_here(self) -> bool {
        std::process::id() == self.pid
    }

    /// Refuses in a child.
    pub(crate) fn demand(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(Error::Forked { pid: self.pid }) }
    }
}
