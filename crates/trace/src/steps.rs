//! The form of a trace that a replay plays: blocks by number, frees that belong to an allocation, streams by index.

use crate::{BlockState, DeviceTrace, Event, EventKind, Trace};
use std::collections::HashMap;

/// What a replay of one device plays, and what is known of it beforehand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Steps {
    /// Blocks that the application held before the first step. Their ids are `0..initial.len()`.
    pub initial: Vec<InitialBlock>,
    /// The steps, in the trace's order.
    pub steps: Vec<Step>,
    /// The recorded handle of each stream index; index 0 is the default stream, handle 0.
    pub streams: Vec<u64>,
    /// Allocations among the steps.
    pub allocs: u64,
    /// Frees by the application among the steps.
    pub frees: u64,
    /// Frees of addresses that no allocation of the trace gave, left out.
    pub skipped_frees: u64,
    /// Allocations at an address that was not free: its free was lost, and is put in before them.
    pub lost_frees: u64,
    /// Out-of-memory events, left out.
    pub oom: u64,
    /// The most bytes that the application held at once, each block rounded up to 512 bytes. A block counts until the
    /// application's free.
    pub peak_live_bytes: u64,
    /// Bytes that the application holds after the last step, rounded in the same way.
    pub end_live_bytes: u64,
    /// The most bytes that the recorded allocator held at once, where the trace says so.
    pub peak_reserved_bytes: Option<u64>,
    /// Microseconds from the first event of the file to this device's last.
    pub duration_us: u64,
}

/// A block that was there before the trace began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitialBlock {
    /// Its number.
    pub id: u32,
    /// Bytes that were asked for.
    pub size_bytes: u64,
    /// Index of the stream it belongs to.
    pub stream: u32,
}

/// One step of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Microseconds since the first event of the file.
    pub time_us: u64,
    /// What to do.
    pub op: Op,
}

/// What a step does. Each id is allocated once, and freed at most once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Allocate a block.
    Alloc {
        /// The block's number: one more than the block before.
        id: u32,
        /// Bytes, as recorded.
        size_bytes: u64,
        /// Index of the stream it belongs to.
        stream: u32,
    },
    /// Free a block that only its own stream used.
    Free {
        /// The block's number.
        id: u32,
    },
    /// Free a block that another stream still uses: it stays pending until [`Op::FreeCompleted`].
    FreeRequested {
        /// The block's number.
        id: u32,
    },
    /// The other streams are done with a block that was freed before.
    FreeCompleted {
        /// The block's number.
        id: u32,
    },
}

const LIVE_ROUNDING_BYTES: u64 = 512;

impl Trace {
    /// The steps that a replay plays on one device: [`DeviceTrace::steps`], empty for a device that is not in the trace.
    #[must_use]
    pub fn steps(&self, device: u32) -> Steps {
        self.device(device).map(DeviceTrace::steps).unwrap_or_default()
    }
}

impl DeviceTrace {
    /// The steps that a replay plays.
    ///
    /// A `free_requested` whose `free_completed` is the next event is a plain free; with anything in between the
    /// block was pending. Blocks that are allocated at the end and that no event names were there from the beginning.
    #[must_use]
    pub fn steps(&self) -> Steps {
        let mut walk = Walk::default();
        walk.stream(0);
        walk.begin(self);
        let mut events = self.events.iter().peekable();
        while let Some(event) = events.next() {
            let is_plain = event.kind == EventKind::FreeRequested
                && events
                    .next_if(|next| next.kind == EventKind::FreeCompleted && next.address == event.address)
                    .is_some();
            walk.play(event, is_plain);
        }
        walk.steps.duration_us = self.events.iter().map(|event| event.time_us).max().unwrap_or(0);
        walk.steps.peak_reserved_bytes = self.peak_reserved_bytes();
        walk.steps.end_live_bytes = walk.live_bytes;
        walk.steps
    }
}

/// A walk along the events of a device.
#[derive(Default)]
struct Walk {
    steps: Steps,
    stream_indices: HashMap<u64, u32>,
    /// The blocks that are not free, by address.
    blocks: HashMap<u64, Standing>,
    live_bytes: u64,
    next_id: u32,
}

/// A block that is not free.
#[derive(Clone, Copy)]
struct Standing {
    id: u32,
    size_bytes: u64,
    /// Whether the application has freed it already.
    is_pending: bool,
}

impl Walk {
    /// Puts in the blocks that were there before the first event.
    fn begin(&mut self, trace: &DeviceTrace) {
        let mut held = HashMap::new();
        for segment in &trace.segments {
            let allocated = segment.blocks.iter().filter(|block| block.state == BlockState::Allocated);
            held.extend(allocated.map(|block| (block.address, (block.requested_bytes, segment.stream))));
        }
        let names_block = |kind| matches!(kind, EventKind::Alloc | EventKind::FreeRequested | EventKind::FreeCompleted);
        for event in trace.events.iter().filter(|event| names_block(event.kind)) {
            held.remove(&event.address);
        }
        let mut held: Vec<_> = held.into_iter().collect();
        held.sort_unstable();
        for (address, (size_bytes, stream)) in held {
            let id = self.stand(address, size_bytes);
            let stream = self.stream(stream);
            self.steps.initial.push(InitialBlock { id, size_bytes, stream });
        }
    }

    fn play(&mut self, event: &Event, is_plain: bool) {
        match event.kind {
            EventKind::Alloc => self.alloc(event),
            EventKind::FreeRequested => self.request_free(event, is_plain),
            EventKind::FreeCompleted => self.complete_free(event),
            EventKind::OutOfMemory => self.steps.oom += 1,
            EventKind::SegmentAlloc
            | EventKind::SegmentFree
            | EventKind::SegmentMap
            | EventKind::SegmentUnmap
            | EventKind::Snapshot
            | EventKind::Other => {}
        }
    }

    fn alloc(&mut self, event: &Event) {
        if let Some(old) = self.blocks.remove(&event.address) {
            self.steps.lost_frees += 1;
            if old.is_pending {
                self.push(event, Op::FreeCompleted { id: old.id });
            } else {
                self.leave(old);
                self.push(event, Op::Free { id: old.id });
            }
        }
        let stream = self.stream(event.stream);
        let id = self.stand(event.address, event.size_bytes);
        self.steps.allocs += 1;
        self.push(event, Op::Alloc { id, size_bytes: event.size_bytes, stream });
    }

    fn request_free(&mut self, event: &Event, is_plain: bool) {
        match self.blocks.get_mut(&event.address) {
            Some(block) if !block.is_pending => {
                block.is_pending = true;
                let block = *block;
                self.leave(block);
                if is_plain {
                    self.blocks.remove(&event.address);
                    self.push(event, Op::Free { id: block.id });
                } else {
                    self.push(event, Op::FreeRequested { id: block.id });
                }
            }
            Some(_) => {
                self.steps.skipped_frees += 1;
                if is_plain {
                    self.complete_free(event);
                }
            }
            None => self.steps.skipped_frees += 1,
        }
    }

    fn complete_free(&mut self, event: &Event) {
        match self.blocks.remove(&event.address) {
            Some(block) if block.is_pending => self.push(event, Op::FreeCompleted { id: block.id }),
            Some(block) => {
                self.leave(block);
                self.push(event, Op::Free { id: block.id });
            }
            // Of a block that the trace does not know; its request, where recorded, was counted.
            None => {}
        }
    }

    /// A block comes to stand at an address.
    fn stand(&mut self, address: u64, size_bytes: u64) -> u32 {
        let id = self.next_id;
        self.next_id = id.checked_add(1).expect("fewer than 2^32 events fit in memory");
        self.blocks.insert(address, Standing { id, size_bytes, is_pending: false });
        self.live_bytes = self.live_bytes.saturating_add(rounded(size_bytes));
        self.steps.peak_live_bytes = self.steps.peak_live_bytes.max(self.live_bytes);
        id
    }

    /// The application lets go of a block.
    fn leave(&mut self, block: Standing) {
        self.steps.frees += 1;
        self.live_bytes = self.live_bytes.saturating_sub(rounded(block.size_bytes));
    }

    fn stream(&mut self, handle: u64) -> u32 {
        *self.stream_indices.entry(handle).or_insert_with(|| {
            self.steps.streams.push(handle);
            u32::try_from(self.steps.streams.len() - 1).expect("fewer than 2^32 events fit in memory")
        })
    }

    fn push(&mut self, event: &Event, op: Op) {
        self.steps.steps.push(Step { time_us: event.time_us, op });
    }
}

fn rounded(size_bytes: u64) -> u64 {
    size_bytes.checked_next_multiple_of(LIVE_ROUNDING_BYTES).unwrap_or(u64::MAX)
}
