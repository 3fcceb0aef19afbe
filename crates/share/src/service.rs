//! A thread that does one thing again and again until it is told to end. Nothing has one unless it is asked for.

use crate::error::{Error, Result};
use crate::home::Home;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Ends a service: whoever waits for something waits for this too.
#[derive(Debug)]
pub(crate) struct Bell {
    /// Readable once it has rung, and for ever after.
    event: OwnedFd,
    rung: AtomicBool,
}

/// A running thread. It ends with its owner.
#[derive(Debug)]
pub(crate) struct Service {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
    home: Home,
}

impl Bell {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| Error::Socket {
            door: "of this process".into(),
            what: "be watched",
            why: format!("the system gave no event: {error}"),
        })?;
        Ok(Arc::new(Self { event, rung: AtomicBool::new(false) }))
    }

    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        // It fails only where it has rung so often that it is readable anyway.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    pub(crate) fn has_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Service {
    /// Starts a thread of this name; `once` waits for what there is to do, or for the bell.
    pub(crate) fn start(name: &str, bell: Arc<Bell>, once: impl Fn() + Send + 'static) -> Result<Self> {
        let heard = bell.clone();
        let body = move || {
            while !heard.has_rung() {
                once();
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(body).map_err(|error| Error::Socket {
            door: "of this process".into(),
            what: "be served",
            why: format!("the system gave no thread: {error}"),
        })?;
        Ok(Self { bell, thread: Some(thread), home: Home::here() })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // A child that was forked off has the bell, and not the thread.
        if !self.home.is_here() {
            std::mem::forget(self.thread.take());
            return;
        }
        self.bell.ring();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::warn!("a thread that served other processes has panicked");
        }
    }
}
