//! A wrapper that lets something happen right after an event was recorded, as another thread might
//! just then.

use std::fmt;
use std::sync::{Arc, Mutex};
use stitchpool::driver::{Driver, RawEvent, RawStream, Result, Wrapper};

type Interjection = Box<dyn FnOnce() + Send>;

pub struct Interjecting {
    driver: Arc<dyn Driver>,
    interjection: Mutex<Option<Interjection>>,
}

impl Interjecting {
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, interjection: Mutex::default() })
    }

    /// Does this after the next event is recorded, before the caller hears of it.
    pub fn after_next_record(&self, interjection: impl FnOnce() + Send + 'static) {
        *self.interjection.lock().unwrap() = Some(Box::new(interjection));
    }
}

impl fmt::Debug for Interjecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interjecting").field("driver", &self.driver).finish_non_exhaustive()
    }
}

impl Wrapper for Interjecting {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    unsafe fn record(&self, stream: RawStream) -> Result<RawEvent> {
        // SAFETY: the caller keeps this verb's conditions.
        let event = unsafe { self.driver.record(stream) }?;
        let interjection = self.interjection.lock().unwrap().take();
        if let Some(interjection) = interjection {
            interjection();
        }
        Ok(event)
    }
}
