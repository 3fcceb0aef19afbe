//! The caller's functions that hear of memory before it leaves its addresses, and after it came back.

use super::segment::CSegment;
use std::ffi::c_void;
use stitchpool_pool::Segment;

/// `stitchpool_leaving`: not 0 if the memory may not leave.
pub type CLeaving = unsafe extern "C" fn(segments: *const CSegment, count: usize, user_data: *mut c_void) -> i32;

/// `stitchpool_returned`.
pub type CReturned = unsafe extern "C" fn(segments: *const CSegment, count: usize, user_data: *mut c_void);

/// Both with what the caller wants them to be given.
pub(crate) struct Listener {
    before: Option<CLeaving>,
    after: Option<CReturned>,
    user_data: *mut c_void,
}

// SAFETY: `Listener::new` demands that the functions may run on any thread with this pointer, which nobody
// follows here.
unsafe impl Send for Listener {}
// SAFETY: as above, by several threads at once.
unsafe impl Sync for Listener {}

impl Listener {
    /// # Safety
    /// - Both may be called with `user_data` on any thread, by several at once, until nobody listens any more
    ///   and the last such call has returned; they do not unwind.
    pub(crate) const unsafe fn new(before: Option<CLeaving>, after: Option<CReturned>, user_data: *mut c_void) -> Self {
        Self { before, after, user_data }
    }
}

impl stitchpool_pool::Listener for Listener {
    fn before_leave(&self, segments: &[Segment]) -> Result<(), String> {
        let Some(before) = self.before else { return Ok(()) };
        let segments: Vec<CSegment> = segments.iter().map(CSegment::of).collect();
        // SAFETY: `new` demands that it may be called so; the segments live until it returns.
        match unsafe { before(segments.as_ptr(), segments.len(), self.user_data) } {
            0 => Ok(()),
            answer => Err(format!("it answered {answer} when it was told of {} segments", segments.len())),
        }
    }

    fn after_return(&self, segments: &[Segment]) {
        let Some(after) = self.after else { return };
        let segments: Vec<CSegment> = segments.iter().map(CSegment::of).collect();
        // SAFETY: as above.
        unsafe { after(segments.as_ptr(), segments.len(), self.user_data) }
    }
}
