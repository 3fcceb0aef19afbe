//! Streams and events: what is queued where, what waits for what, and whose turn it is. It runs nothing.

use super::config::{HostConfig, StreamMode};
use super::lane::{Item, Lane};
use super::order::Order;
use super::point::{LaneId, Point};
use super::span::Span;
use super::time::Time;
use super::work::Work;
use crate::{Capture, DeviceId, Error, ErrorKind, RawEvent, RawStream, Result, Verb};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All streams that live or have work left, and all live events.
#[derive(Debug)]
pub(super) struct Timeline {
    mode: StreamMode,
    recycle_values: bool,
    time: Arc<Time>,
    /// There iff order is watched.
    order: Option<Order>,
    /// The time of the latest work that ran; nothing that runs later is earlier.
    latest_us: u64,
    lanes: BTreeMap<LaneId, Lane>,
    /// Lanes with something queued.
    busy: BTreeSet<LaneId>,
    names: BTreeMap<RawStream, LaneId>,
    events: BTreeMap<u64, (DeviceId, Point)>,
    spare_values: Vec<u64>,
    next_value: u64,
    next_lane: u64,
    /// Never given twice, so that a forgotten event is always seen.
    next_event: u64,
}

impl Timeline {
    /// A timeline with the default stream of each device, value 0.
    pub(super) fn new(config: &HostConfig, time: Arc<Time>) -> Self {
        let mut timeline = Self {
            mode: config.streams,
            recycle_values: config.recycle_stream_values,
            time,
            order: config.watch_order.then(Order::default),
            latest_us: 0,
            lanes: BTreeMap::new(),
            busy: BTreeSet::new(),
            names: BTreeMap::new(),
            events: BTreeMap::new(),
            spare_values: Vec::new(),
            next_value: FIRST_VALUE,
            next_lane: 1,
            next_event: 1,
        };
        for (_, ordinal) in config.devices.iter().zip(0..) {
            timeline.open_lane(RawStream { device: DeviceId(ordinal), value: 0 });
        }
        timeline
    }

    pub(super) fn create_stream(&mut self, device: DeviceId) -> RawStream {
        let value = self.spare_values.pop().unwrap_or_else(|| {
            self.next_value += VALUE_STEP;
            self.next_value - VALUE_STEP
        });
        let stream = RawStream { device, value };
        self.open_lane(stream);
        stream
    }

    fn open_lane(&mut self, stream: RawStream) {
        let lane = LaneId(self.next_lane);
        self.next_lane += 1;
        self.lanes.insert(lane, Lane::new(stream));
        self.names.insert(stream, lane);
    }

    pub(super) fn destroy_stream(&mut self, stream: RawStream) -> Result<()> {
        let id = self.id(Verb::Kernel, stream)?;
        let lane = self.lane_mut(id);
        if stream.value == 0 || lane.capture != Capture::None {
            let detail = format!("stream {} is a default stream or is being captured", stream.value);
            return Err(Error::new(Verb::Kernel, ErrorKind::InvalidValue, detail).on(stream.device));
        }
        lane.destroyed = true;
        self.names.remove(&stream);
        self.drop_if_over(id);
        if self.recycle_values {
            self.spare_values.push(stream.value);
        }
        Ok(())
    }

    pub(super) fn id(&self, verb: Verb, stream: RawStream) -> Result<LaneId> {
        self.names.get(&stream).copied().ok_or_else(|| {
            let detail = format!("stream {} does not live: it was destroyed, or never created here", stream.value);
            Error::new(verb, ErrorKind::InvalidValue, detail).on(stream.device)
        })
    }

    pub(super) fn lane(&self, id: LaneId) -> &Lane {
        self.lanes.get(&id).expect(NAMED)
    }

    pub(super) fn lane_mut(&mut self, id: LaneId) -> &mut Lane {
        self.lanes.get_mut(&id).expect(NAMED)
    }

    /// Queues work and says which point its end is.
    pub(super) fn queue(&mut self, id: LaneId, work: Work, sequence: u64) -> Point {
        let lag_us = if let StreamMode::Lagged { lag_us } = self.mode { lag_us } else { 0 };
        let ready_us = self.time.now_us().saturating_add(lag_us);
        let point = Point { lane: id, number: self.lane(id).last() + 1 };
        let after = self.order.as_mut().map(|order| order.queued(point));
        self.lane_mut(id).push(Item { work, sequence, ready_us, after });
        self.busy.insert(id);
        point
    }

    /// The end of each lane of a device that lives.
    pub(super) fn ends_of(&self, device: DeviceId) -> Vec<Point> {
        let lanes = self.lanes.iter().filter(|(_, lane)| lane.stream.device == device);
        lanes.map(|(&lane, last)| Point { lane, number: last.last() }).collect()
    }

    /// Invalidates every open capture of a device and names one of their streams, if there is any.
    pub(super) fn break_captures(&mut self, device: DeviceId) -> Option<RawStream> {
        let lanes = self.lanes.values_mut().filter(|lane| lane.stream.device == device);
        let captured = lanes.filter(|lane| lane.capture != Capture::None);
        captured.map(|lane| (lane.capture = Capture::Invalidated, lane.stream).1).last()
    }

    /// The end of all that is queued on a lane so far.
    pub(super) fn end(&self, id: LaneId) -> Point {
        Point { lane: id, number: self.lane(id).last() }
    }

    /// Takes the next item of a lane out: it is done from now on. `forced` work takes no time.
    pub(super) fn take(&mut self, id: LaneId, forced: bool) -> Option<Item> {
        let latest_us = self.latest_us;
        let lane = self.lanes.get_mut(&id)?;
        let start_us = start_us(lane).max(latest_us);
        let item = lane.pop()?;
        if !forced {
            lane.free_at_us = start_us.saturating_add(item.work.micros());
            self.latest_us = start_us;
        }
        if lane.head().is_none() {
            self.busy.remove(&id);
        }
        Some(item)
    }

    /// Forgets a destroyed lane that has nothing left to do.
    pub(super) fn drop_if_over(&mut self, id: LaneId) {
        let over = self.lanes.get(&id).filter(|lane| lane.destroyed && lane.head().is_none());
        if let Some(device) = over.map(|lane| lane.stream.device) {
            self.lanes.remove(&id);
            self.order.iter_mut().for_each(|order| order.drop_lane(device, id));
        }
    }

    /// Whose item runs next by the mode's own rule, if any does.
    pub(super) fn due(&self) -> Option<LaneId> {
        match self.mode {
            StreamMode::Immediate => self.first(u64::MAX),
            StreamMode::ByHand => None,
            StreamMode::Lagged { .. } => self.first(self.time.now_us()),
        }
    }

    /// Whose item is first in order of time, then of queueing, among those that may run until `until_us`.
    pub(super) fn first(&self, until_us: u64) -> Option<LaneId> {
        let all = self.busy.iter().filter(|&&id| self.may_run(id));
        let order = |id: &&LaneId| {
            let lane = self.lane(**id);
            let start_us = if self.is_timed() { start_us(lane).max(self.latest_us) } else { 0 };
            (start_us, lane.head().map(|item| item.sequence))
        };
        all.min_by_key(order).filter(|id| order(id).0 <= until_us).copied()
    }

    /// Whether a lane has an item that waits for nothing.
    pub(super) fn may_run(&self, id: LaneId) -> bool {
        let Some(lane) = self.lanes.get(&id).filter(|lane| !lane.stalled) else { return false };
        lane.head().is_some_and(|item| !matches!(item.work, Work::Wait(point) if !self.is_passed(point)))
    }

    pub(super) fn is_passed(&self, point: Point) -> bool {
        self.lanes.get(&point.lane).is_none_or(|lane| lane.done >= point.number)
    }

    const fn is_timed(&self) -> bool {
        matches!(self.mode, StreamMode::Lagged { .. })
    }

    pub(super) fn name_event(&mut self, device: DeviceId, point: Point) -> RawEvent {
        let value = self.next_event;
        self.next_event += 1;
        self.events.insert(value, (device, point));
        let event = RawEvent { device, value };
        self.order.iter_mut().for_each(|order| order.recorded(event, point.lane));
        event
    }

    pub(super) fn point(&self, verb: Verb, event: RawEvent) -> Result<Point> {
        match self.events.get(&event.value) {
            Some(&(device, point)) if device == event.device => Ok(point),
            _ => Err(unknown(verb, event)),
        }
    }

    pub(super) fn forget(&mut self, event: RawEvent) -> Result<()> {
        self.point(Verb::Forget, event)?;
        self.events.remove(&event.value);
        self.order.iter_mut().for_each(|order| order.forget(event));
        Ok(())
    }

    /// What the lane queues from now on comes after the event.
    pub(super) fn waits(&mut self, id: LaneId, event: RawEvent) {
        self.order.iter_mut().for_each(|order| order.waits(id, event));
    }

    /// The CPU has seen that the event is done.
    pub(super) fn cpu_saw(&mut self, event: RawEvent) {
        self.order.iter_mut().for_each(|order| order.cpu_saw(event));
    }

    /// The CPU has seen that all of a lane is done.
    pub(super) fn cpu_saw_all(&mut self, id: LaneId) {
        self.order.iter_mut().for_each(|order| order.cpu_saw_all(id));
    }

    /// The CPU has seen that all of a device's streams that are over are done.
    pub(super) fn cpu_saw_over(&mut self, device: DeviceId) {
        self.order.iter_mut().for_each(|order| order.cpu_saw_over(device));
    }

    pub(super) fn events(&self) -> u64 {
        self.events.len() as u64
    }

    /// Streams that live, default streams excepted.
    pub(super) fn streams(&self) -> u64 {
        self.names.keys().filter(|stream| stream.value != 0).count() as u64
    }

    /// Some stream with queued work that uses an address of the span, and the work's word. It looks at
    /// all queued work, and is asked only when there is such work.
    pub(super) fn who_names(&self, span: Span) -> Option<(LaneId, &'static str)> {
        self.busy.iter().find_map(|&id| {
            let mut items = self.lane(id).items();
            let found = items.find(|item| item.work.uses().any(|used| used.span.meets(span)))?;
            Some((id, found.work.word()))
        })
    }

    /// Whether the CPU has seen the point passed. Where order is not watched, all is seen.
    pub(super) fn is_seen(&self, point: Point) -> bool {
        self.order.as_ref().is_none_or(|order| order.is_seen(point))
    }

    /// What faults call the stream of a lane, which may be over.
    pub(super) fn title(&self, id: LaneId) -> String {
        match self.lanes.get(&id) {
            Some(lane) => format!("stream {} of {}", lane.stream.value, lane.stream.device),
            None => format!("the destroyed stream with identity {}", id.0),
        }
    }

    /// Items that have not run.
    pub(super) fn queued(&self) -> u64 {
        self.busy.iter().map(|&id| self.lane(id).queued()).sum()
    }
}

/// A lane lives while it has a name or something queued.
const NAMED: &str = "a lane lives while its stream does or work is queued on it";
/// Values below are the default streams of CUDA.
const FIRST_VALUE: u64 = 16;
const VALUE_STEP: u64 = 16;

/// When a lane's next item may start, on a clock that lags.
fn start_us(lane: &Lane) -> u64 {
    lane.head().map_or(0, |item| item.ready_us).max(lane.free_at_us)
}

fn unknown(verb: Verb, event: RawEvent) -> Error {
    let detail = format!("event {} does not live: it was forgotten, or never recorded here", event.value);
    Error::new(verb, ErrorKind::InvalidValue, detail).on(event.device)
}
