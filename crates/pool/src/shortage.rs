//! Why memory was short, and what would help most. It counts nothing itself.

use crate::holdings::Holdings;
use std::borrow::Cow;
use std::fmt;
use stitchpool_driver::Trouble;

/// Why memory was short: what was asked, and what holds the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What was asked for.
    pub asked_bytes: u64,
    /// How much could not be found.
    pub missing_bytes: u64,
    /// The devices that were tried, first to last.
    pub devices: Vec<Holdings>,
    /// The driver's last refusal, where it refused.
    pub refusal: Option<stitchpool_driver::Error>,
    /// Why blocks that may be put out were not, where one was refused: the first refusal.
    pub eviction: Option<String>,
    /// Waits for pending memory that did not end in time.
    pub waits: Vec<String>,
    /// Whether a capture forbade to take, to wait for, or to give back anything.
    pub capturing: bool,
}

impl Shortage {
    /// What would help most, by what holds the memory.
    #[must_use]
    pub fn advice(&self) -> Cow<'static, str> {
        let leased_bytes: u64 = self.devices.iter().map(|holdings| holdings.leased_bytes).sum();
        if !self.capturing && leased_bytes > 0 && leased_bytes >= self.missing_bytes {
            return format!("leases hold {leased_bytes} bytes of evictable blocks: end those no longer used").into();
        }
        self.plain_advice().into()
    }

    /// Whether nothing that could be freed would help.
    pub(crate) fn is_hopeless(&self) -> bool {
        let limit_bytes = self.devices.iter().map(|holdings| holdings.limit_bytes).fold(0, u64::saturating_add);
        self.capturing || self.asked_bytes > limit_bytes
    }

    fn plain_advice(&self) -> &'static str {
        let any = |test: &dyn Fn(&Holdings) -> bool| self.devices.iter().any(test);
        if self.capturing {
            "a capture can take nothing from others, nor wait: trim the pool before it begins"
        } else if any(&|holdings| holdings.pending_bytes >= self.missing_bytes) {
            "other streams still use freed memory: let them finish, or free earlier"
        } else if any(&|holdings| holdings.kept_bytes >= self.missing_bytes) {
            "leases or views hold freed memory: end them"
        } else if any(&|holdings| holdings.stranded_bytes >= self.missing_bytes) {
            "free bytes are stranded in partly used handles: build the pool with a smaller handle_bytes_max"
        } else if any(&|holdings| holdings.limit_is_short_of_device(self.missing_bytes)) {
            "the pool's limit is reached, not the device's memory: raise limit_bytes"
        } else if any(&|holdings| holdings.pinned_bytes >= self.missing_bytes) {
            "free bytes are pinned by graphs or registrations: release those no longer used"
        } else if any(&|holdings| holdings.device_is_short(self.missing_bytes)) {
            "the pool may hold more, but the device has no more: others hold its memory; let them end, or free blocks"
        } else {
            "free blocks, or let the request spill to further devices"
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory: asked for {} bytes, {} of them not found", self.asked_bytes, self.missing_bytes)?;
        for holdings in &self.devices {
            write!(f, "; {holdings}")?;
        }
        for wait in &self.waits {
            write!(f, "; {wait}")?;
        }
        if let Some(refusal) = &self.refusal {
            write!(f, "; {refusal}")?;
        }
        if let Some(refusal) = &self.eviction {
            write!(f, "; nothing more was evicted: {refusal}")?;
        }
        write!(f, "; {}", self.advice())?;
        if self.devices.iter().any(|holdings| holdings.device_is_short(self.missing_bytes)) {
            write!(f, "; {}", Trouble::NotBack.see())?;
        }
        Ok(())
    }
}
