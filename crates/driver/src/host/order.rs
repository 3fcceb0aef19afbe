//! Which queued work is known to be ordered before which, by streams, events and the CPU's own waits.
//! It knows order, not time: what merely happened to run first counts for nothing.

use super::point::{LaneId, Point};
use crate::{DeviceId, RawEvent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// For each stream, the newest item that something is ordered after.
#[derive(Clone, Debug, Default)]
pub(super) struct Frontier(BTreeMap<LaneId, u64>);

/// The frontiers of all that queues or waits.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// What the CPU has seen done; all that it queues later comes after.
    cpu: Frontier,
    lanes: BTreeMap<LaneId, Frontier>,
    /// What streams of each device had done that are over, and that a wait for the device has not seen yet.
    over: BTreeMap<DeviceId, Frontier>,
    events: BTreeMap<u64, Frontier>,
}

impl Frontier {
    pub(super) fn covers(&self, point: Point) -> bool {
        self.0.get(&point.lane).is_some_and(|&number| number >= point.number)
    }

    pub(super) fn add(&mut self, point: Point) {
        let number = self.0.entry(point.lane).or_default();
        *number = point.number.max(*number);
    }

    pub(super) fn points(&self) -> impl Iterator<Item = Point> {
        self.0.iter().map(|(&lane, &number)| Point { lane, number })
    }

    fn join(&mut self, other: &Self) {
        other.points().for_each(|point| self.add(point));
    }
}

impl Order {
    /// Notes a new item, and says what it comes after.
    pub(super) fn queued(&mut self, point: Point) -> Arc<Frontier> {
        let lane = self.lanes.entry(point.lane).or_default();
        lane.join(&self.cpu);
        let after = Arc::new(lane.clone());
        lane.add(point);
        after
    }

    /// The event stands for all that its lane comes after by now.
    pub(super) fn recorded(&mut self, event: RawEvent, lane: LaneId) {
        self.events.insert(event.value, self.lanes.get(&lane).cloned().unwrap_or_default());
    }

    /// What the lane queues from now on comes after the event.
    pub(super) fn waits(&mut self, lane: LaneId, event: RawEvent) {
        if let Some(passed) = self.events.get(&event.value) {
            self.lanes.entry(lane).or_default().join(passed);
        }
    }

    /// The CPU has seen that the event is done.
    pub(super) fn cpu_saw(&mut self, event: RawEvent) {
        if let Some(passed) = self.events.get(&event.value) {
            self.cpu.join(passed);
        }
    }

    /// The CPU has seen that all of a lane is done.
    pub(super) fn cpu_saw_all(&mut self, lane: LaneId) {
        if let Some(passed) = self.lanes.get(&lane) {
            self.cpu.join(passed);
        }
    }

    pub(super) fn forget(&mut self, event: RawEvent) {
        self.events.remove(&event.value);
    }

    /// The stream is over; what it did stays in the frontiers of others.
    pub(super) fn drop_lane(&mut self, device: DeviceId, lane: LaneId) {
        if let Some(done) = self.lanes.remove(&lane) {
            self.over.entry(device).or_default().join(&done);
        }
    }

    /// The CPU has seen that all of a device's streams that are over are done.
    pub(super) fn cpu_saw_over(&mut self, device: DeviceId) {
        if let Some(done) = self.over.remove(&device) {
            self.cpu.join(&done);
        }
    }

    /// Whether the CPU has seen this done.
    pub(super) fn is_seen(&self, point: Point) -> bool {
        self.cpu.covers(point)
    }
}
