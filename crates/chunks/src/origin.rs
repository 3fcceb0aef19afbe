//! Where owned things come from and go back to: one driver, and the quarantine for what it would not
//! take back.

use crate::Quarantine;
use std::sync::Arc;
use stitchpool_driver::Driver;

/// The driver that made a thing, with the list of things that it refused to take back.
#[derive(Debug)]
pub struct Origin {
    driver: Arc<dyn Driver>,
    quarantine: Quarantine,
}

impl Origin {
    /// An origin with nothing in quarantine.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, quarantine: Quarantine::default() })
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// What the driver refused to take back.
    #[must_use]
    pub const fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }
}
