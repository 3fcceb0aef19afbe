//! Every driver call of a multi-chunk operation fails in turn, alone and with those after it, so that
//! the calls of the roll-back fail too. The operation errs and changes nothing, or succeeds; the next
//! attempt succeeds; what the driver would not take back is counted, and nothing else is left.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod ends;
#[path = "../rig/mod.rs"]
mod rig;
mod scenario;
mod stage;

use scenario::{SCENARIOS, Scenario};
use stage::Stage;
use stitchpool::driver::{ErrorKind, Fault};

const KINDS: [ErrorKind; 3] = [ErrorKind::OutOfMemory, ErrorKind::InvalidValue, ErrorKind::Unknown];
/// No operation here makes so many calls.
const CALLS_MAX: u64 = 400;

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// So many, one after the other.
    Run(u64),
    /// All.
    Lasting,
}

impl Outage {
    const ALL: [Self; 4] = [Self::Run(1), Self::Run(2), Self::Run(5), Self::Lasting];

    fn faults(self, first: u64, kind: ErrorKind) -> Vec<Fault> {
        match self {
            Self::Run(length) => {
                (first..first + length).map(|nth| Fault { verb: None, nth, lasting: false, kind }).collect()
            }
            Self::Lasting => vec![Fault { verb: None, nth: first, lasting: true, kind }],
        }
    }
}

/// Plays a scenario with an outage from the `first` call on. False: the operation makes fewer calls.
fn play(scenario: &Scenario, outage: Outage, first: u64, kind: ErrorKind) -> bool {
    let mut stage = Stage::new(scenario);
    (scenario.prepare)(&mut stage);
    stage.check();
    let before = stage.figures();
    outage.faults(first, kind).into_iter().for_each(|fault| stage.rig.faulty.arm(fault));
    let outcome = (scenario.act)(&mut stage);
    stage.rig.faulty.clear();
    let met = stage.rig.faulty.failed() > 0;
    stage.check();
    if !met {
        let after = stage.figures();
        assert!((scenario.did)(&before, &after), "before {before:?}, after {after:?}");
    }
    if let Err(error) = outcome {
        assert!(met, "{error}");
        stage.compare(&before);
        let retried = (scenario.act)(&mut stage);
        let excused = stage.figures().quarantined > 0;
        assert!(retried.is_ok() || excused, "{retried:?} at the second attempt, after {error}");
        stage.check();
    }
    stage.finish();
    met
}

/// Plays a scenario with every outage; panics name it.
fn play_all(scenario: &Scenario) {
    for outage in Outage::ALL {
        for kind in KINDS {
            let mut first = 1;
            let caught = |first| {
                let played = || play(scenario, outage, first, kind);
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(played)).unwrap_or_else(|_| {
                    panic!("{}: {outage:?} from call {first} on, {kind}", scenario.name);
                })
            };
            while caught(first) {
                first += 1;
                assert!(first < CALLS_MAX, "{}: so many calls", scenario.name);
            }
            assert!(first > 1, "{}: no call was made, so none could fail", scenario.name);
        }
    }
}

#[test]
fn whatever_call_fails_an_operation_is_done_or_undone() {
    SCENARIOS.iter().for_each(play_all);
}
