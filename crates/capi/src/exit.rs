//! The end of the process. Its pool for PyTorch is never closed, but the driver goes: no thread of ours may be inside a
//! call then.

use crate::process_pool;
use std::ffi::c_int;
use std::sync::Once;

unsafe extern "C" {
    fn atexit(at_exit: extern "C" fn()) -> c_int;
}

/// Sees to it that the pool's thread ends before a driver that is open already.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `at_exit` stays loaded, as for `fork::prepare`. After a refusal the thread may be seen by the driver's end.
        let _ = unsafe { atexit(at_exit) };
    });
}

extern "C" fn at_exit() {
    process_pool::end();
}
