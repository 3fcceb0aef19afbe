//! The child of a fork: F63. It has its parent's addresses and memory files, and may use neither.

use std::ffi::c_int;
use stitchpool_driver::host::{HostConfig, HostDriver};
use stitchpool_driver::{DeviceId, Driver, Error, ErrorKind, Grant, HandleKind, HandleSpec, Kernels, Rights};

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

const FIRST: DeviceId = DeviceId(0);

/// Runs `child` in a child, which must say that all went well.
fn in_a_child(child: impl FnOnce() -> bool) {
    // SAFETY: the child calls nothing that another thread could hold a lock of: the driver is this test's own.
    let process = unsafe { fork() };
    assert!(process >= 0);
    if process == 0 {
        let status = if std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false) { 0 } else { 1 };
        // SAFETY: it ends the child, and runs nothing of the tests' on the way.
        unsafe { _exit(status) };
    }
    let mut status = -1;
    // SAFETY: the child is this process's, and `status` is a place for an integer.
    assert_eq!(unsafe { waitpid(process, &raw mut status, 0) }, process);
    assert_eq!(status, 0, "the child saw something else");
}

fn is_refused<T>(outcome: Result<T, Error>) -> bool {
    outcome.is_err_and(|error| error.kind == ErrorKind::Deinitialized && error.to_string().contains("forked from"))
}

#[test]
fn f63_the_child_of_a_fork_touches_nothing_of_its_parent_s() {
    let driver = HostDriver::new(HostConfig::default()).unwrap();
    let bytes = driver.granularity(FIRST, HandleKind::Private).unwrap();
    let stream = driver.create_stream(FIRST).unwrap();
    let at = driver.reserve(2 * bytes, 0).unwrap();
    let handle = driver.create(HandleSpec { device: FIRST, bytes, kind: HandleKind::Private }).unwrap();
    // SAFETY: the range is reserved and empty, the handle lives and is as long; both until the end.
    unsafe {
        driver.map(at, bytes, handle).unwrap();
        driver.set_rights(at, bytes, &[Grant { device: FIRST, rights: Rights::ReadWrite }]).unwrap();
        driver.fill(stream, at, bytes, 5).unwrap();
    }
    let before = driver.ledger();
    in_a_child(|| {
        // SAFETY: every one of them is refused before it does anything.
        let refused = unsafe {
            [
                is_refused(driver.unmap(at, bytes)),
                is_refused(driver.release(handle)),
                is_refused(driver.unreserve(at, 2 * bytes)),
                is_refused(driver.fill(stream, at, bytes, 6)),
                is_refused(driver.finish_stream(stream)),
                is_refused(driver.record(stream)),
                is_refused(driver.write(FIRST, at, &[0])),
                is_refused(driver.synchronize(FIRST)),
                is_refused(driver.memory(FIRST)),
                is_refused(driver.reserve(bytes, 0)),
                is_refused(driver.create(HandleSpec { device: FIRST, bytes, kind: HandleKind::Private })),
            ]
        };
        // Its end in the child is the child's alone.
        drop(driver.clone());
        refused == [true; 11]
    });
    assert_eq!(driver.ledger(), before, "nothing was asked of this process's");
    // SAFETY: as above.
    unsafe {
        driver.verify(stream, at, bytes, 5).unwrap();
        driver.finish_stream(stream).unwrap();
    }
    let tally = driver.tally().unwrap();
    assert_eq!((tally.wrong_bytes, tally.faults.len()), (0, 0));
    // SAFETY: as above; nothing uses them any more.
    unsafe {
        driver.unmap(at, bytes).unwrap();
        driver.release(handle).unwrap();
        driver.unreserve(at, 2 * bytes).unwrap();
        driver.destroy_stream(stream).unwrap();
    }
    assert!(driver.ledger().is_empty());
    // The child has its own.
    in_a_child(|| HostDriver::new(HostConfig::default()).is_ok_and(|own| own.reserve(bytes, 0).is_ok()));
}
