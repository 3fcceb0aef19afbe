//! Listeners: who is told before memory leaves its addresses, and after it came back.

use super::arena::scope_of;
use crate::boundary::{ListenerHandle, PoolHandle, with_pool};
use crate::open_pool::OpenPool;
use crate::place::Place;
use crate::pointer::handle_to;
use crate::refusal::{Refusal, Result};
use crate::shape::{CLeaving, CReturned, CScope, Listener};
use crate::status::Status;
use std::ffi::c_void;
use std::sync::Arc;
use stitchpool_pool::{Interest, ListenerId, Scope};

/// Tells `before` and `after` of memory of a scope, each of which may be null.
///
/// # Safety
/// - As the header's rules say. Both may be called with `user_data` on any thread, by several at once, until
///   nobody listens any more and the last such call has returned; they do not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_listen(
    pool: *const PoolHandle,
    scope: *const CScope,
    before: Option<CLeaving>,
    after: Option<CReturned>,
    user_data: *mut c_void,
    listener: *mut *mut ListenerHandle,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for `listener`.
        let place = unsafe { Place::of(listener, "listener") }?;
        // SAFETY: the caller answers for `scope`.
        let interest = interest(open, unsafe { scope_of(scope) }?)?;
        // SAFETY: the caller answers for the functions and their data.
        let told = unsafe { Listener::new(before, after, user_data) };
        let id = open.pool.listen(Arc::new(told), interest)?;
        let handle = open.shelf().put(id).inspect_err(|_| {
            open.pool.unlisten(id);
        })?;
        place.put(handle_to(handle));
        Ok(())
    })
}

/// Tells it no longer.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_unlisten(pool: *const PoolHandle, listener: *mut ListenerHandle) -> Status {
    with_pool(pool, |open| {
        let id = open.shelf::<ListenerId>().take(listener.addr())?;
        open.pool.unlisten(*id);
        Ok(())
    })
}

fn interest(open: &OpenPool, scope: Scope) -> Result<Interest> {
    Ok(match scope {
        Scope::All => Interest::Pool,
        Scope::Arena(arena) => Interest::Arena(arena),
        Scope::Range { address, bytes } => Interest::Range { address, bytes },
        Scope::Block(address) => {
            let block = open.pool.block_holding(address).filter(|block| block.address == address);
            let unknown = || {
                let words = format!("{address} is not the address of a live block of this pool");
                Refusal::new(Status::UnknownAddress, words)
            };
            Interest::Range { address, bytes: block.ok_or_else(unknown)?.bytes }
        }
    })
}
