//! The keys of a snapshot that are read. All others are passed over.

/// A key that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Key {
    Segments,
    DeviceTraces,
    AllocatorSettings,
    CudaAllocConf,
    AllocConf,
    ExpandableSegments,
    Action,
    Addr,
    DeviceFree,
    Size,
    Stream,
    TimeUs,
    Device,
    Address,
    TotalSize,
    SegmentType,
    SegmentPoolId,
    IsExpandable,
    Blocks,
    RequestedSize,
    State,
}

impl Key {
    /// Every key, at the place of its number.
    pub(super) const ALL: [(Self, &'static str); 21] = [
        (Self::Segments, "segments"),
        (Self::DeviceTraces, "device_traces"),
        (Self::AllocatorSettings, "allocator_settings"),
        (Self::CudaAllocConf, "PYTORCH_CUDA_ALLOC_CONF"),
        (Self::AllocConf, "PYTORCH_ALLOC_CONF"),
        (Self::ExpandableSegments, "expandable_segments"),
        (Self::Action, "action"),
        (Self::Addr, "addr"),
        (Self::DeviceFree, "device_free"),
        (Self::Size, "size"),
        (Self::Stream, "stream"),
        (Self::TimeUs, "time_us"),
        (Self::Device, "device"),
        (Self::Address, "address"),
        (Self::TotalSize, "total_size"),
        (Self::SegmentType, "segment_type"),
        (Self::SegmentPoolId, "segment_pool_id"),
        (Self::IsExpandable, "is_expandable"),
        (Self::Blocks, "blocks"),
        (Self::RequestedSize, "requested_size"),
        (Self::State, "state"),
    ];

    /// The key's text.
    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The key whose text the store keeps under this number: keys are kept first.
    pub(super) fn from_text(id: u32) -> Option<Self> {
        Self::ALL.get(id as usize).map(|(key, _)| *key)
    }
}

const _: () = {
    let mut at = 0;
    while at < Key::ALL.len() {
        assert!(Key::ALL[at].0 as usize == at, "a key stands at the place of its number");
        at += 1;
    }
};
