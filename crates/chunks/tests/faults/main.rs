//! Every driver call of a change to a range fails in turn, alone and with those after it, so that the
//! calls of the roll-back fail too. The change is made or undone; what could not be undone is in
//! quarantine, and counted; nothing else is left at the end.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../bench/mod.rs"]
mod bench;
mod change;
mod owners;
mod sight;

use change::{CHANGES, Change, Stage};
use sight::Sight;
use stitchpool_driver::{ErrorKind, Fault};

const KINDS: [ErrorKind; 3] = [ErrorKind::OutOfMemory, ErrorKind::InvalidValue, ErrorKind::Unknown];
/// So many calls fail, one after the other.
const LENGTHS: [u64; 5] = [1, 2, 3, 6, 1000];

/// Makes a change while calls fail. False: it makes fewer calls than `first`.
fn play(change: &Change, first: u64, length: u64, kind: ErrorKind) -> bool {
    let mut stage = Stage::new();
    let before = Sight::of(&stage);
    for nth in first..first + length {
        stage.bench.faulty.arm(Fault { verb: None, nth, lasting: false, kind });
    }
    let made = (change.make)(&mut stage);
    let met = stage.bench.faulty.failed() > 0;
    stage.bench.faulty.clear();
    stage.range.check().unwrap();
    stage.other.check().unwrap();
    let quarantined = stage.bench.origin.quarantine().count();
    match made {
        Ok(()) => assert!(!met || quarantined > 0),
        Err(error) => {
            assert!(met, "{error}");
            let after = Sight::of(&stage);
            if length > 1 && before != after {
                // The roll-back was refused too: what is gone from here is counted, or stands elsewhere.
                assert!(after.is_left_of(&before), "before {before:#?}, after {after:#?}");
                assert!(quarantined > 0 || after.has_all_handles_of(&before), "after {after:#?}");
            } else {
                assert_eq!(before, after, "after {error}");
                let again = (change.make)(&mut stage);
                assert!(again.is_ok() || quarantined > 0, "{again:?} at the second attempt, after {error}");
            }
        }
    }
    stage.finish();
    met
}

#[test]
fn whatever_call_fails_a_change_is_made_or_undone() {
    for change in CHANGES {
        for length in LENGTHS {
            for kind in KINDS {
                let mut first = 1;
                let caught = |first| {
                    let played = || play(change, first, length, kind);
                    std::panic::catch_unwind(played)
                        .unwrap_or_else(|_| panic!("{}: {length} calls from {first} on: {kind}", change.name))
                };
                while caught(first) {
                    first += 1;
                }
                assert!(first > 1, "{}: no call could fail", change.name);
            }
        }
    }
}
