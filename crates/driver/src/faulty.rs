//! A wrapper that fails chosen calls, for tests. A call that it fails never reaches the driver.

use crate::{Driver, Error, ErrorKind, Result, Verb, Wrapper};
use parking_lot::Mutex;
use std::sync::Arc;

/// Any driver, with chosen calls failing. Calls are counted in the order in which they come, so one
/// thread sees the same failures in every run.
#[derive(Debug)]
pub struct Faulty {
    driver: Arc<dyn Driver>,
    plan: Mutex<Plan>,
}

/// Which call shall fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The verb that fails; `None` means that every verb counts.
    pub verb: Option<Verb>,
    /// Which of the coming calls fails: 1 is the next one.
    pub nth: u64,
    /// Whether all calls after it fail too.
    pub lasting: bool,
    /// What the refusal is.
    pub kind: ErrorKind,
}

#[derive(Debug, Default)]
struct Plan {
    armed: Vec<Fault>,
    calls: [u64; Verb::ALL.len()],
    failed: u64,
}

impl Faulty {
    /// Wraps a driver; nothing fails yet.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { driver, plan: Mutex::default() })
    }

    /// Arms one more fault. Faults armed before stay.
    pub fn arm(&self, fault: Fault) {
        self.plan.lock().armed.push(fault);
    }

    /// The `nth` next call of `verb` fails (1 is the next one).
    pub fn fail(&self, verb: Verb, nth: u64, kind: ErrorKind) {
        self.arm(Fault { verb: Some(verb), nth, lasting: false, kind });
    }

    /// The `nth` next call of any verb fails.
    pub fn fail_any(&self, nth: u64, kind: ErrorKind) {
        self.arm(Fault { verb: None, nth, lasting: false, kind });
    }

    /// The `nth` next call of any verb fails, and all after it.
    pub fn fail_all_from(&self, nth: u64, kind: ErrorKind) {
        self.arm(Fault { verb: None, nth, lasting: true, kind });
    }

    /// Disarms all faults. Counts stay.
    pub fn clear(&self) {
        self.plan.lock().armed.clear();
    }

    /// Calls of a verb so far, failed ones included.
    #[must_use]
    pub fn calls(&self, verb: Verb) -> u64 {
        self.plan.lock().calls[verb as usize]
    }

    /// Calls of all verbs so far, failed ones included.
    #[must_use]
    pub fn total_calls(&self) -> u64 {
        self.plan.lock().calls.iter().sum()
    }

    /// Calls that were made to fail so far.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.plan.lock().failed
    }
}

impl Plan {
    /// Counts a call, and says how it fails if it does.
    fn meet(&mut self, verb: Verb) -> Option<ErrorKind> {
        self.calls[verb as usize] += 1;
        let mut kind = None;
        for fault in self.armed.iter_mut().filter(|fault| fault.verb.is_none_or(|chosen| chosen == verb)) {
            fault.nth = fault.nth.saturating_sub(1);
            if fault.nth == 0 {
                kind = kind.or(Some(fault.kind));
            }
        }
        self.armed.retain(|fault| fault.lasting || fault.nth > 0);
        self.failed += u64::from(kind.is_some());
        kind
    }
}

impl Wrapper for Faulty {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    fn around<T>(&self, verb: Verb, call: impl FnOnce(&dyn Driver) -> Result<T>) -> Result<T> {
        let Some(kind) = self.plan.lock().meet(verb) else { return call(self.inner()) };
        Err(Error::new(verb, kind, "this call was chosen to fail, for a test"))
    }
}
