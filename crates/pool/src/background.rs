//! A thread of the pool's own, where it was asked for: it takes stale mappings down while the callers' threads go on.
//! It has the mapper's lock for one of them at a time, and whoever waits for the lock comes first.

use crate::error::{Error, Result};
use crate::mapper::Mapper;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// The thread; it ends with this at the latest.
#[derive(Debug)]
pub(crate) struct Background {
    bell: Arc<Bell>,
    /// None iff it was ended.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that has the thread: a fork of it has none.
    process: u32,
}

/// What the thread waits for.
#[derive(Debug, Default)]
struct Bell {
    call: Mutex<Call>,
    rung: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Call {
    /// For nothing: it sleeps.
    #[default]
    Nothing,
    /// To see what is stale.
    Work,
    /// To end; it stands.
    End,
}

impl Background {
    pub(crate) fn start(mapper: Arc<Mutex<Mapper>>) -> Result<Self> {
        let bell = Arc::new(Bell::default());
        let heard = bell.clone();
        let thread = Builder::new().name("stitchpool".to_owned()).spawn(move || {
            while heard.wait() == Call::Work {
                take_down(&mapper, &heard);
            }
        });
        let refused = |error| Error::Setting(format!("background_thread is set, and no thread can be had: {error}"));
        Ok(Self { bell, thread: Mutex::new(Some(thread.map_err(refused)?)), process: std::process::id() })
    }

    /// Something may be stale, and past. False: there is no thread any more that would see to it.
    pub(crate) fn ring(&self) -> bool {
        self.bell.ring(Call::Work)
    }

    /// Ends the thread, when it is done with the mapping in hand.
    pub(crate) fn end(&self) {
        // In a fork nobody would ever answer, or let go of the bell.
        if self.process != std::process::id() {
            return;
        }
        self.bell.ring(Call::End);
        let joined = self.thread.lock().take().map(JoinHandle::join);
        if joined.is_some_and(|joined| joined.is_err()) {
            tracing::error!("the pool's background thread has panicked");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

impl Bell {
    /// False: it is to end, or has ended.
    fn ring(&self, call: Call) -> bool {
        let mut standing = self.call.lock();
        if *standing == Call::End {
            return false;
        }
        *standing = call;
        self.rung.notify_one();
        true
    }

    /// Sleeps until there is a call, and answers it.
    fn wait(&self) -> Call {
        let mut standing = self.call.lock();
        while *standing == Call::Nothing {
            self.rung.wait(&mut standing);
        }
        let call = *standing;
        if call == Call::Work {
            *standing = Call::Nothing;
        }
        call
    }
}

/// Takes down what is stale and past, one mapping after the other.
fn take_down(mapper: &Mutex<Mapper>, bell: &Bell) {
    let mut mapper = mapper.lock();
    while *bell.call.lock() != Call::End {
        match mapper.retire_stale(1) {
            Ok(0) => return,
            Ok(_) => MutexGuard::bump(&mut mapper),
            // The next call tries again.
            Err(error) => return tracing::debug!(%error, "a stale mapping stays"),
        }
    }
}
