//! The owner of one physical handle standing in one vacancy.

use crate::{Origin, PhysicalHandle, Quarantined, QuarantinedKind, Vacancy};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use stitchpool_driver::{Address, DeviceId, Error, ErrorKind, Result, Verb};

/// A physical handle standing, whole, in a vacancy. The same handle may stand in several (aliases).
///
/// Addresses are numbers here and nothing in this crate reads through them, so unmapping is no unsafe
/// act of this crate's. Who queues work on these addresses keeps the mapping until that work is done:
/// the driver does not wait. That holds for dropping it, which unmaps too.
#[derive(Debug)]
pub struct Mapping {
    /// Taken out exactly once: by `unmap` or by `drop`.
    standing: ManuallyDrop<Standing>,
}

/// What stands, and where.
#[derive(Debug)]
struct Standing {
    vacancy: Vacancy,
    handle: Arc<PhysicalHandle>,
}

impl Vacancy {
    /// Maps the whole of `handle` here. No device has rights on it yet: see [`open`](crate::open).
    ///
    /// # Errors
    /// The driver's, with the vacancy back; `InvalidValue` if the sizes differ.
    pub fn map(self, handle: Arc<PhysicalHandle>) -> std::result::Result<Mapping, (Error, Self)> {
        if handle.bytes() != self.bytes() {
            let detail = format!(
                "a handle of {} bytes does not fill a vacancy of {} bytes: split the vacancy to the handle's size first",
                handle.bytes(),
                self.bytes()
            );
            return Err((Error::new(Verb::Map, ErrorKind::InvalidValue, detail).of(self.bytes()), self));
        }
        // SAFETY: the vacancy is the proof that nothing is mapped here and that the reservation
        // lives; the Arc is the proof that the handle does, and its size was compared.
        match unsafe { self.origin().driver().map(self.at(), self.bytes(), handle.raw()) } {
            Ok(()) => Ok(Mapping::new(self, handle)),
            Err(error) => Err((error, self)),
        }
    }
}

impl Mapping {
    const fn new(vacancy: Vacancy, handle: Arc<PhysicalHandle>) -> Self {
        Self { standing: ManuallyDrop::new(Standing { vacancy, handle }) }
    }

    /// Its first address.
    #[must_use]
    pub fn at(&self) -> Address {
        self.standing.vacancy.at()
    }

    /// Its length: the handle's.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.standing.vacancy.bytes()
    }

    /// The address after its last byte.
    #[must_use]
    pub fn end(&self) -> Address {
        self.standing.vacancy.end()
    }

    /// The memory behind it.
    #[must_use]
    pub fn handle(&self) -> &Arc<PhysicalHandle> {
        &self.standing.handle
    }

    /// Whether nothing else holds its memory: no other mapping, and no view.
    #[must_use]
    pub fn is_only(&self) -> bool {
        Arc::strong_count(self.handle()) == 1
    }

    /// The device whose memory it is.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.standing.handle.device()
    }

    /// Takes the memory from the address: both come back apart. No work that is queued or running
    /// may use these addresses any more.
    ///
    /// # Errors
    /// The driver's, with the mapping back as it was.
    pub fn unmap(self) -> std::result::Result<(Vacancy, Arc<PhysicalHandle>), (Error, Self)> {
        match self.unmap_in_place() {
            Ok(()) => {
                let mut this = ManuallyDrop::new(self);
                // SAFETY: `this` is never dropped, so `standing` is taken out only here.
                let Standing { vacancy, handle } = unsafe { ManuallyDrop::take(&mut this.standing) };
                Ok((vacancy, handle))
            }
            Err(error) => Err((error, self)),
        }
    }

    fn unmap_in_place(&self) -> Result<()> {
        // SAFETY: this owner is the proof that exactly this mapping stands here; that no work uses
        // it is what the type's contract asks of whoever queues work.
        unsafe { self.origin().driver().unmap(self.at(), self.bytes()) }
    }

    /// Gives it up for good, after a refusal to unmap it.
    pub(crate) fn give_up(self, error: Error) {
        ManuallyDrop::new(self).quarantine(error);
    }

    /// What still stands must not be given out again: both are kept for ever, and with them the
    /// reservation and the handle.
    fn quarantine(&self, error: Error) {
        let (device, bytes) = (Some(self.device()), self.bytes());
        self.origin().quarantine().put(Quarantined { kind: QuarantinedKind::Mapping, device, bytes, error });
    }

    pub(crate) fn origin(&self) -> &Arc<Origin> {
        self.standing.vacancy.origin()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match self.unmap_in_place() {
            // SAFETY: `drop` runs once and `unmap` never lets it run, so `standing` is still whole.
            Ok(()) => unsafe { ManuallyDrop::drop(&mut self.standing) },
            Err(error) => self.quarantine(error),
        }
    }
}
