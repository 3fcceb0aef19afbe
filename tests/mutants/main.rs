//! Faults planted in the policy: each is seen. A scenario is played twice, as the pool is and with the
//! fault; what it looks at is right the first time and wrong the second.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../rig/mod.rs"]
mod rig;
mod scenarios;

use std::sync::{Mutex, PoisonError};
use stitchpool_pool::mutant::{Mutant, plant};

/// The switch is one for the whole process.
static SWITCH: Mutex<()> = Mutex::new(());

/// A fault, until it is dropped.
struct Planted;

impl Planted {
    fn new(mutant: Mutant) -> Self {
        plant(Some(mutant));
        Self
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        plant(None);
    }
}

/// Plays a scenario without and with a fault. It says what is wrong, if anything is.
fn catch(mutant: Mutant, scenario: fn() -> Result<(), String>) {
    let _alone = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(scenario(), Ok(()), "nothing is planted");
    let planted = Planted::new(mutant);
    let seen = scenario();
    drop(planted);
    assert!(seen.is_err(), "{mutant:?} was not seen");
}

#[test]
fn a_skipped_ready_check_is_seen() {
    catch(Mutant::SkipReadyCheck, scenarios::no_wait_where_none_is_allowed);
}

#[test]
fn forgotten_uses_on_other_streams_are_seen() {
    catch(Mutant::SkipRecordUse, scenarios::a_block_read_elsewhere);
}

#[test]
fn a_mapping_taken_down_early_is_seen() {
    catch(Mutant::UnmapEarly, scenarios::a_stale_mapping_that_queued_work_names);
}

#[test]
fn an_event_recorded_before_its_epoch_is_closed_is_seen() {
    catch(Mutant::RecordBeforeClosing, scenarios::a_free_that_slips_in_behind_the_event);
}

#[test]
fn dropped_fences_are_seen() {
    catch(Mutant::DropCarried, scenarios::a_handle_that_passes_through_a_second_stream);
}
