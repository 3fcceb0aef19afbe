//! What a fork leaves the child: nothing of its parent's. Drivers and pools belong to the process that
//! opened them, since a driver's handles, and the threads that were inside a call, do not cross a fork.

use crate::open_driver::DRIVERS;
use crate::open_importer::IMPORTERS;
use crate::open_pool::POOLS;
use crate::presence;
use std::ffi::c_int;
use std::sync::Once;

unsafe extern "C" {
    fn pthread_atfork(
        before: Option<extern "C" fn()>,
        in_parent: Option<extern "C" fn()>,
        in_child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// Sees to it that a child finds its parent's handles closed. Called before there is any.
pub(crate) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `in_child` stays loaded: the C library does not unload a library that has registered
        // destructors of thread-locals. A refusal costs the child its clear error and nothing else.
        let _ = unsafe { pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Stores to atomics, and nothing that a child of a process with threads may not do.
extern "C" fn in_child() {
    presence::leave_others();
    DRIVERS.disown();
    POOLS.disown();
    IMPORTERS.disown();
}
