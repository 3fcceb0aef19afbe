//! What a pool tells of where everything stands: for reports, and for people who look for their memory.

use crate::rig::{MIB, Rig, Shape};
use std::collections::BTreeSet;
use stitchpool::{SlotState, Survey, SurveyedSlot};

/// The survey, held against the pool's own figures.
#[track_caller]
fn survey(rig: &Rig) -> Survey {
    let (survey, holdings) = (rig.pool().survey(), rig.figures().holdings);
    let sum = |of: fn(&SurveyedSlot) -> u64| survey.slots.iter().map(of).sum::<u64>();
    assert_eq!(
        (sum(|slot| slot.live_bytes), sum(|slot| slot.pending_bytes)),
        (holdings.live_bytes, holdings.pending_bytes)
    );
    let standing = survey.slots.iter().filter_map(|slot| slot.handle);
    let handles: BTreeSet<_> = standing.chain(survey.idle.iter().copied()).collect();
    assert_eq!(handles.iter().map(|handle| handle.bytes).sum::<u64>(), holdings.physical_bytes);
    assert!(survey.slots.is_sorted_by(|low, high| low.at + low.bytes <= high.at), "slots overlap");
    survey
}

fn count(survey: &Survey, state: SlotState) -> usize {
    survey.slots.iter().filter(|slot| slot.state == state).count()
}

#[test]
fn a_block_is_seen_in_the_slots_that_it_lies_in() {
    let rig = Shape::exact(2 * MIB, 8).build();
    let stream = rig.stream();
    assert_eq!(survey(&rig), Survey::default());
    let block = rig.take(stream, 3 * MIB);
    let seen = survey(&rig);
    let live: Vec<u64> = seen.slots.iter().map(|slot| slot.live_bytes).collect();
    assert_eq!((seen.slots[0].at, live), (block, vec![2 * MIB, MIB]));
    rig.free(block);
    assert_eq!(count(&survey(&rig), SlotState::Current), 2);
}

#[test]
fn a_moved_handle_is_seen_where_it_stands_and_where_it_was() {
    let rig = Shape::exact(2 * MIB, 4).build();
    let stream = rig.stream();
    let parts = [0; 4].map(|_| rig.take(stream, 2 * MIB));
    rig.busy(stream);
    rig.free(parts[0]);
    rig.free(parts[2]);
    // Two chunks that do not touch make one block; the GPU is not past their old places.
    rig.take(stream, 4 * MIB);
    let seen = survey(&rig);
    assert_eq!((count(&seen, SlotState::Current), count(&seen, SlotState::Stale)), (4, 2));
    for left in seen.slots.iter().filter(|slot| slot.state == SlotState::Stale) {
        let twins = seen.slots.iter().filter(|slot| slot.handle == left.handle && slot.state == SlotState::Current);
        assert_eq!((twins.count(), left.live_bytes), (1, 0), "{left:?}");
    }
}

#[test]
fn what_another_stream_still_uses_is_seen_as_pending() {
    let rig = Shape::exact(2 * MIB, 4).build();
    let (owner, other) = (rig.stream(), rig.stream());
    let block = rig.take(owner, 5 * MIB);
    rig.busy(other);
    rig.pool().record_use(block, other.id).unwrap();
    rig.free(block);
    let seen = survey(&rig);
    assert_eq!(seen.slots.iter().map(|slot| slot.pending_bytes).collect::<Vec<_>>(), [2 * MIB, 2 * MIB, MIB]);
}
