//! All that one lock of the host driver guards: the ledger, the streams, and what was seen of them.

use super::accesses::{Access, Accesses};
use super::books::Books;
use super::config::HostConfig;
use super::lane::Item;
use super::ledger::Ledger;
use super::place::Place;
use super::point::{LaneId, Point};
use super::reservations::Shown;
use super::span::Span;
use super::time::Time;
use super::timeline::Timeline;
use super::work::{Use, Work};
use crate::{Capture, DeviceId, Error, ErrorKind, RawStream, Result, Rights, Tally, Verb};
use std::sync::Arc;

/// The driver's state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) books: Books,
    pub(super) timeline: Timeline,
    pub(super) tally: Tally,
    /// Empty unless order is watched.
    accesses: Accesses,
    refusals: u64,
    last_refusal: Option<Error>,
}

/// Faults that are told in words; the rest would say the same.
const FAULTS_MAX: usize = 1000;

impl State {
    pub(super) fn open(config: &HostConfig, time: Arc<Time>) -> Result<Self> {
        Ok(Self {
            books: Books::open(config)?,
            timeline: Timeline::new(config, time),
            tally: Tally::default(),
            accesses: Accesses::default(),
            refusals: 0,
            last_refusal: None,
        })
    }

    /// Counts a refusal that better code would not have met.
    pub(super) fn count_refusal(&mut self, error: &Error) {
        match error.kind {
            ErrorKind::OutOfMemory | ErrorKind::OutOfResources | ErrorKind::NotPermitted | ErrorKind::Timeout => {}
            _ => {
                self.refusals += 1;
                self.last_refusal = Some(error.clone());
            }
        }
    }

    /// Queues work on a live stream, and runs what the mode lets run.
    pub(super) fn queue(&mut self, id: LaneId, work: Work) -> Point {
        let sequence = self.books.tick();
        for Use { span, .. } in work.uses() {
            self.books.mappings.each_over(span, |mapping| mapping.named += 1);
        }
        let point = self.timeline.queue(id, work, sequence);
        self.run_due();
        point
    }

    /// Queues an application's work, or records it where a capture is open.
    pub(super) fn queue_or_capture(&mut self, stream: RawStream, work: Work) -> Result<()> {
        let id = self.timeline.id(Verb::Kernel, stream)?;
        let lane = self.timeline.lane_mut(id);
        match lane.capture {
            Capture::None => drop(self.queue(id, work)),
            Capture::Active => lane.captured.push(work),
            Capture::Invalidated => return Err(broken(Verb::Kernel, stream)),
        }
        Ok(())
    }

    /// A stream's lane, for a verb that a capture does not stand: it is invalidated and the verb refused.
    pub(super) fn uncaptured(&mut self, verb: Verb, stream: RawStream) -> Result<LaneId> {
        let id = self.timeline.id(verb, stream)?;
        let lane = self.timeline.lane_mut(id);
        if lane.capture == Capture::None {
            return Ok(id);
        }
        lane.capture = Capture::Invalidated;
        Err(broken(verb, stream))
    }

    /// Runs what the mode lets run now.
    pub(super) fn run_due(&mut self) {
        while let Some(id) = self.timeline.due() {
            self.run_head(id, false);
        }
    }

    /// Runs a lane's next item, whose turn it is.
    pub(super) fn run_head(&mut self, id: LaneId, forced: bool) {
        let stream = self.timeline.lane(id).stream;
        let Some(item) = self.timeline.take(id, forced) else { return };
        let mut allowed = true;
        for Use { span, needs } in item.work.uses() {
            // Mappings made since stand at these addresses by chance: the work did not count in them.
            self.books.mappings.each_over(span, |mapping| mapping.named -= u64::from(mapping.made < item.sequence));
            if let Some(why) = self.obstacle(stream, span, needs) {
                allowed = false;
                self.fault(id, span, &format!("{} may not use the range: {why}", item.work.word()));
            }
        }
        if allowed {
            self.watch(id, &item);
            // SAFETY: `obstacle` found every use mapped and open to the stream's device, and so to this
            // process; the lock of this state is held, so nobody changes that meanwhile.
            unsafe { item.work.perform(&mut self.tally) };
        }
        self.timeline.drop_if_over(id);
    }

    /// Runs what `point` needs and nothing else. Whatever cannot run is the error.
    pub(super) fn run_until(&mut self, point: Point) -> std::result::Result<(), RawStream> {
        let mut needed = vec![point];
        // Each round runs an item or goes to a wait's point, which was queued before the wait: so it ends.
        while let Some(&point) = needed.last() {
            if self.timeline.is_passed(point) {
                needed.pop();
                continue;
            }
            let lane = self.timeline.lane(point.lane);
            match lane.head().map(|item| &item.work) {
                _ if lane.stalled => return Err(lane.stream),
                Some(&Work::Wait(other)) if !self.timeline.is_passed(other) => needed.push(other),
                _ => self.run_head(point.lane, true),
            }
        }
        Ok(())
    }

    /// Runs all that is queued on a device. While one of its streams is being captured it breaks that, as
    /// CUDA does.
    pub(super) fn synchronize(&mut self, device: DeviceId) -> Result<()> {
        let captured = self.timeline.break_captures(device);
        if let Some(stream) = captured {
            return Err(broken(Verb::Synchronize, stream));
        }
        self.run_due();
        for point in self.timeline.ends_of(device) {
            self.run_until(point).map_err(|stuck| {
                let detail = format!("stream {} stands still", stuck.value);
                Error::new(Verb::Synchronize, ErrorKind::Timeout, detail).on(stuck.device)
            })?;
            self.timeline.cpu_saw_all(point.lane);
        }
        self.timeline.cpu_saw_over(device);
        Ok(())
    }

    /// Refuses the CPU's use of a range by a device that may not use it so, or that queued work names.
    pub(super) fn demand_quiet(&self, verb: Verb, device: DeviceId, span: Span, needs: Rights) -> Result<()> {
        let refused = |kind, why: String| Err(Error::new(verb, kind, why).on(device).of(span.bytes));
        let index = self.books.places.index(verb, device)?;
        if let Some(why) = self.books.mappings.obstacle(span, needs, |mapping| mapping.opened.allows(index, needs)) {
            return refused(ErrorKind::IllegalAddress, why);
        }
        match self.timeline.who_names(span) {
            Some((lane, word)) => {
                refused(ErrorKind::InvalidValue, format!("a {word} queued on {} names it", self.timeline.title(lane)))
            }
            None => Ok(()),
        }
    }

    /// Why a stream's device may not use a range so.
    fn obstacle(&self, stream: RawStream, span: Span, needs: Rights) -> Option<String> {
        let index = match self.books.places.index(Verb::Kernel, stream.device) {
            Ok(index) => index,
            Err(error) => return Some(error.to_string()),
        };
        self.books.mappings.obstacle(span, needs, |mapping| mapping.opened.allows(index, needs))
    }

    /// Notes an item's uses where order is watched; one without an order to an earlier use is a fault.
    fn watch(&mut self, id: LaneId, item: &Item) {
        let Some(after) = &item.after else { return };
        let by = Point { lane: id, number: self.timeline.lane(id).done };
        for Use { span, needs } in item.work.uses() {
            let access = Access { by, after, writes: needs == Rights::ReadWrite };
            let mut strangers = Vec::new();
            for (at, mapping) in self.books.mappings.over(span) {
                let bytes = span.at.max(at.at) - at.at..span.end().min(at.end()) - at.at;
                self.accesses.note_mapping(mapping.made, by);
                strangers.extend(self.accesses.note(mapping.memory, bytes, access).map(|other| (at, other)));
            }
            for (at, other) in strangers {
                let (word, other) = (item.work.word(), self.timeline.title(other.lane));
                self.fault(id, at, &format!("nothing orders {word} after what {other} did with the same bytes"));
            }
        }
        let physicals = &self.books.physicals;
        self.accesses.sweep(|memory| physicals.lives(memory), physicals.memories());
    }

    /// Unmaps a run. That queued work still names a part of it is no refusal, as on a GPU, but a
    /// fault; so is, where order is watched, that nobody has seen the end of all use of it.
    pub(super) fn unmap(&mut self, span: Span) -> Result<()> {
        for (at, gone) in self.books.unmap(span)? {
            if gone.named > 0
                && let Some((lane, word)) = self.timeline.who_names(at)
            {
                self.fault(lane, at, &format!("the range was unmapped before a queued {word} that names it"));
            }
            let used = self.accesses.drop_mapping(gone.made);
            let unseen = used.points().find(|&point| !self.timeline.is_seen(point));
            if let Some(unseen) = unseen {
                self.fault(unseen.lane, at, "the range was unmapped, and the CPU had not seen the end of its use");
            }
        }
        Ok(())
    }

    /// Notes what would have killed a context.
    fn fault(&mut self, lane: LaneId, span: Span, what: &str) {
        if self.tally.faults.len() < FAULTS_MAX {
            let fault = format!("{}, {}: {what}", self.timeline.title(lane), Shown(span));
            self.tally.faults.push(fault);
        }
    }

    pub(super) fn ledger(&self) -> Ledger {
        let by_place = |bytes: fn(&Place) -> u64| {
            let all = self.books.places.all().iter().map(|place| (place.device, bytes(place)));
            all.filter(|&(_, bytes)| bytes > 0).collect()
        };
        Ledger {
            handles: self.books.physicals.handles(),
            physical_bytes: by_place(|place| place.used_bytes),
            imported_bytes: by_place(|place| place.imported_bytes),
            reservations: self.books.reservations.count(),
            reserved_bytes: self.books.reservations.reserved_bytes(),
            mappings: self.books.mappings.count(),
            mapped_bytes: self.books.mappings.mapped_bytes(),
            events: self.timeline.events(),
            descriptors: self.books.physicals.descriptors(),
            streams: self.timeline.streams(),
            queued: self.timeline.queued(),
            refusals: self.refusals,
            last_refusal: self.last_refusal.clone(),
        }
    }
}

fn broken(verb: Verb, stream: RawStream) -> Error {
    let detail = format!("stream {} is being captured, and this breaks the capture", stream.value);
    Error::new(verb, ErrorKind::Capture, detail).on(stream.device)
}
