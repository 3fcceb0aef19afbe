//! Ends a test that would otherwise hang for ever.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Runs `story` on a thread of its own; a panic if it is not over in time.
pub(crate) fn within<T: Send + 'static>(limit: Duration, story: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, over) = channel();
    let runner = thread::spawn(move || done.send(story()));
    match over.recv_timeout(limit) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs: not over after {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match runner.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("the sender is dropped only after it has sent, or by a panic"),
        },
    }
}
