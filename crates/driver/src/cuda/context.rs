//! Primary contexts: one a device, retained when it is first needed and not before, because each
//! costs its device about half a GiB. It never leaves a context current that was not.

use super::capture_mode::Relaxed;
use super::failure::call;
use crate::{DeviceId, Result, Verb};
use parking_lot::Mutex;
use stitchpool_cuda_sys::{CUcontext, CUdevice, Cuda};

/// The primary context of one device.
pub(super) struct Context {
    device: CUdevice,
    /// `Some` iff we hold one count of the device's primary context.
    retained: Mutex<Option<CUcontext>>,
}

impl Context {
    pub(super) fn new(device: CUdevice) -> Self {
        Self { device, retained: Mutex::new(None) }
    }

    /// Makes the context current on this thread until the guard goes, captures unharmed.
    pub(super) fn enter<'a>(&self, cuda: &'a Cuda, verb: Verb, id: DeviceId) -> Result<Entered<'a>> {
        let relaxed = Relaxed::enter(cuda, verb)?;
        let context = self.retain(cuda, verb).map_err(|error| error.on(id))?;
        // SAFETY: `retain` holds a count of `context`, so it is live.
        unsafe { call!(cuda, verb, cuCtxPushCurrent_v2(context)) }.map_err(|error| error.on(id))?;
        Ok(Entered { cuda, device: id, _popped_before_this: relaxed })
    }

    fn retain(&self, cuda: &Cuda, verb: Verb) -> Result<CUcontext> {
        let mut retained = self.retained.lock();
        if let Some(context) = *retained {
            return Ok(context);
        }
        let mut context = CUcontext::NULL;
        // SAFETY: `context` is a live place for the answer; `device` came from cuDeviceGet.
        unsafe { call!(cuda, verb, cuDevicePrimaryCtxRetain(&mut context, self.device)) }?;
        *retained = Some(context);
        Ok(context)
    }

    /// Gives our count back. Others who hold the primary context keep it.
    pub(super) fn release(&mut self, cuda: &Cuda) {
        if self.retained.get_mut().take().is_some() {
            // SAFETY: `retained` was `Some`: one count is ours. On the way down nobody can act on a refusal.
            let _ = unsafe { (cuda.cuDevicePrimaryCtxRelease_v2)(self.device) };
        }
    }
}

/// Whether the device has a primary context in this process, made by anybody.
pub(super) fn is_active(cuda: &Cuda, device: CUdevice) -> Result<bool> {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: both are live places for the answers; `device` came from cuDeviceGet.
    unsafe { call!(cuda, Verb::Synchronize, cuDevicePrimaryCtxGetState(device, &mut flags, &mut active)) }?;
    Ok(active != 0)
}

/// Proof that a device's context is current on this thread and its capture mode relaxed. The verbs
/// on events and streams are its methods, so that none of them can be called anywhere else.
pub(super) struct Entered<'a> {
    pub(super) cuda: &'a Cuda,
    pub(super) device: DeviceId,
    /// Dropped after our own `drop`, and not `Send`: both stacks belong to the thread.
    _popped_before_this: Relaxed<'a>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut popped = CUcontext::NULL;
        // SAFETY: `popped` is a live place; `enter` pushed on this thread, and the guard cannot have left it.
        let _ = unsafe { (self.cuda.cuCtxPopCurrent_v2)(&mut popped) };
    }
}
