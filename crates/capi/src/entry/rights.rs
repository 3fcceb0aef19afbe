//! What devices may do with memory that stands.

use super::arena::scope_of;
use crate::boundary::{PoolHandle, with_pool};
use crate::shape::{CGrant, CScope, grants_of};
use crate::status::Status;

/// Sets what the named devices may do with the memory of a scope from now on.
///
/// # Safety
/// - As the header's rules say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stitchpool_rights_set(
    pool: *const PoolHandle,
    scope: *const CScope,
    grants: *const CGrant,
    count: usize,
) -> Status {
    with_pool(pool, |open| {
        // SAFETY: the caller answers for the scope and the list.
        let (scope, grants) = unsafe { (scope_of(scope)?, grants_of(grants, count)?) };
        Ok(open.pool.set_rights(scope, &grants)?)
    })
}
