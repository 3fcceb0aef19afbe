//! One line of a recorded trace.

/// One recorded event, 40 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Microseconds since the first event of the file.
    pub time_us: u64,
    /// The address concerned. Of an [`EventKind::OutOfMemory`] the bytes that the device had free,
    /// where recorded, else 0.
    pub address: u64,
    /// Bytes concerned, as recorded.
    pub size_bytes: u64,
    /// The stream's handle as recorded; 0 is the default stream.
    pub stream: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What an event says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventKind {
    /// The application got a block.
    Alloc,
    /// The application freed a block.
    FreeRequested,
    /// The block became reusable: at once, or when the streams that used it had passed.
    FreeCompleted,
    /// The allocator took a segment from the device.
    SegmentAlloc,
    /// The allocator gave a segment back.
    SegmentFree,
    /// The allocator mapped memory into an expandable segment.
    SegmentMap,
    /// The allocator unmapped memory of an expandable segment.
    SegmentUnmap,
    /// The device refused memory.
    OutOfMemory,
    /// A snapshot was taken.
    Snapshot,
    /// An action that this crate does not know; [`crate::Source::other_actions`] counts them by name.
    Other,
}

impl EventKind {
    const NAMED: [(Self, &'static str); 9] = [
        (Self::Alloc, "alloc"),
        (Self::FreeRequested, "free_requested"),
        (Self::FreeCompleted, "free_completed"),
        (Self::SegmentAlloc, "segment_alloc"),
        (Self::SegmentFree, "segment_free"),
        (Self::SegmentMap, "segment_map"),
        (Self::SegmentUnmap, "segment_unmap"),
        (Self::OutOfMemory, "oom"),
        (Self::Snapshot, "snapshot"),
    ];

    /// The kind that a snapshot's `action` names.
    #[must_use]
    pub fn from_action(action: &str) -> Self {
        Self::NAMED.iter().find(|(_, name)| *name == action).map_or(Self::Other, |(kind, _)| *kind)
    }

    /// The `action` that a snapshot writes for this kind.
    #[must_use]
    pub fn action(self) -> &'static str {
        Self::NAMED.iter().find(|(kind, _)| *kind == self).map_or("other", |(_, name)| name)
    }
}
