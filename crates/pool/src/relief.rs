//! Whom the pool asks for help before a request fails.

use crate::error::Shortage;

/// Told of a shortage, with no lock held; says whether it has freed anything.
pub type Relief = dyn Fn(&Shortage) -> bool + Send + Sync;
