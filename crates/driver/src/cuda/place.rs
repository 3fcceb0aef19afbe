//! One device together with what this process has made on it: nothing, then a context, then kernels.

use super::context::{Context, Entered};
use super::device::Device;
use super::workshop::Workshop;
use crate::{DeviceId, Result, Verb};
use parking_lot::Mutex;
use std::sync::OnceLock;
use stitchpool_cuda_sys::Cuda;

pub(super) struct Place {
    pub(super) device: Device,
    context: Context,
    /// Filled iff a kernel was asked for; then the context is retained.
    workshop: OnceLock<Workshop>,
    one_builder: Mutex<()>,
}

impl Place {
    pub(super) fn new(device: Device) -> Self {
        let context = Context::new(device.raw);
        Self { device, context, workshop: OnceLock::new(), one_builder: Mutex::new(()) }
    }

    pub(super) fn id(&self) -> DeviceId {
        self.device.info.id
    }

    /// Makes the device's context current on this thread until the guard goes.
    pub(super) fn enter<'a>(&self, cuda: &'a Cuda, verb: Verb) -> Result<Entered<'a>> {
        self.context.enter(cuda, verb, self.id())
    }

    /// The kernels, loaded on first use.
    pub(super) fn workshop(&self, entered: &Entered<'_>) -> Result<&Workshop> {
        if let Some(workshop) = self.workshop.get() {
            return Ok(workshop);
        }
        let _one_at_a_time = self.one_builder.lock();
        if let Some(workshop) = self.workshop.get() {
            return Ok(workshop);
        }
        let built = Workshop::build(entered)?;
        Ok(self.workshop.get_or_init(|| built))
    }

    /// The kernels, if they were ever asked for.
    pub(super) fn workshop_if_any(&self) -> Option<&Workshop> {
        self.workshop.get()
    }

    /// Gives back all that was made here. Refusals are dropped: nobody is left to act on them, and
    /// at the end of a process the driver may have shut down first.
    pub(super) fn clear(&mut self, cuda: &Cuda) {
        if let Some(workshop) = self.workshop.take()
            && let Ok(entered) = self.enter(cuda, Verb::Kernel)
        {
            workshop.clear(&entered);
        }
        self.context.release(cuda);
    }
}
