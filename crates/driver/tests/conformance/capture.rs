//! A capture by another thread, in the strictest mode: which verbs leave it as it is.

use crate::rig::{FIRST, PATIENCE, Rig, refused};
use std::sync::mpsc;
use stitchpool_cuda_sys::{CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_SUCCESS, CUcontext, CUdevice, CUgraph, CUstream, Cuda};
use stitchpool_driver::{Capture, ErrorKind, RawStream};

rows!(cuda_only:
    a_global_capture_of_another_thread_stays_valid,
    synchronize_is_refused_while_a_stream_of_the_device_is_captured_and_breaks_that,
    synchronize_makes_no_context,
);

fn a_global_capture_of_another_thread_stays_valid(rig: &Rig) {
    let (captured, other) = (rig.stream(FIRST), rig.stream(FIRST));
    let pending = rig.record(other);
    let (begun, has_begun) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    std::thread::scope(|threads| {
        let capture = threads.spawn(move || {
            let open = Open::begin(captured);
            begun.send(()).unwrap();
            may_end.recv().unwrap();
            open.end()
        });
        has_begun.recv().unwrap();
        use_every_verb(rig, other, pending);
        // SAFETY: the stream lives.
        assert_eq!(unsafe { rig.driver.capture(captured) }, Ok(Capture::Active));
        end.send(()).unwrap();
        assert!(capture.join().unwrap(), "the capture was invalidated");
    });
    // SAFETY: the stream lives.
    assert_eq!(unsafe { rig.driver.capture(captured) }, Ok(Capture::None));
}

fn synchronize_is_refused_while_a_stream_of_the_device_is_captured_and_breaks_that(rig: &Rig) {
    let captured = rig.stream(FIRST);
    let open = Open::begin(captured);
    refused(rig.synchronize(FIRST), &[ErrorKind::Capture]);
    assert!(!open.end(), "the capture was still valid");
    rig.synchronize(FIRST).unwrap();
}

fn synchronize_makes_no_context(rig: &Rig) {
    let cuda = Cuda::open().unwrap();
    for (device, ordinal) in rig.driver.devices().unwrap().into_iter().zip(0..) {
        let active = || {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: both are live places for the answers, and the device exists.
            assert_eq!(unsafe { (cuda.cuDevicePrimaryCtxGetState)(ordinal, &mut flags, &mut active) }, CUDA_SUCCESS);
            active
        };
        let before = active();
        rig.synchronize(device.id).unwrap();
        assert_eq!(active(), before, "{}", device.id);
    }
}

fn use_every_verb(rig: &Rig, other: RawStream, pending: stitchpool_driver::RawEvent) {
    rig.is_done(pending).unwrap();
    rig.finish(pending, PATIENCE).unwrap();
    let event = rig.record(other);
    rig.wait(other, event);
    rig.finish(event, PATIENCE).unwrap();
    rig.forget(event).unwrap();
    rig.identity(other);
    let at = rig.stitch(&[FIRST; 2], 1);
    rig.unmap(at, 2).unwrap();
    rig.unreserve(at, 2 * rig.granule).unwrap();
    rig.release(rig.create(FIRST, 1)).unwrap();
    rig.free_bytes(FIRST);
}

/// The device of [`FIRST`], as the raw interface names it.
const DEVICE: CUdevice = 0;

/// A capture that this thread has begun.
struct Open {
    cuda: Cuda,
    stream: CUstream,
}

impl Open {
    fn begin(stream: RawStream) -> Self {
        let cuda = Cuda::open().unwrap();
        let stream = CUstream(std::ptr::with_exposed_provenance_mut(stream.value as usize));
        let mut context = CUcontext::NULL;
        // SAFETY: the driver is open, and so initialised; device 0 exists; the stream lives in its primary context.
        unsafe {
            assert_eq!((cuda.cuDevicePrimaryCtxRetain)(&mut context, DEVICE), CUDA_SUCCESS);
            assert_eq!((cuda.cuCtxSetCurrent)(context), CUDA_SUCCESS);
            assert_eq!((cuda.cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
        }
        Self { cuda, stream }
    }

    /// Ends it, and says whether it was valid.
    fn end(self) -> bool {
        let mut graph = CUgraph::NULL;
        // SAFETY: `begin` began it on this thread. The graph is empty, and ends with the process.
        unsafe { (self.cuda.cuStreamEndCapture)(self.stream, &mut graph) == CUDA_SUCCESS }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: `begin` retained the context of device 0.
        let released = unsafe { (self.cuda.cuDevicePrimaryCtxRelease_v2)(DEVICE) };
        if released != CUDA_SUCCESS {
            println!("the context was not released: {released:?}");
        }
    }
}
