//! The end of the process. Its pool for PyTorch is never closed, but the driver goes: no thread of ours may be inside a
//! call then.

use std::ffi::c_int;

unsafe extern "C" {
    fn atexit(at_exit: extern "C" fn()) -> c_int;
}

/// Has something done at the end of the process, before a driver that is open already sees to its own.
pub(crate) fn prepare(at_exit: extern "C" fn()) {
    // SAFETY: `at_exit` stays loaded, as for `fork::prepare`. After a refusal the driver's end may meet our thread.
    let _ = unsafe { atexit(at_exit) };
}
