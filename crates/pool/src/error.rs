//! What the pool says when it refuses. Nothing has changed.

use crate::shortage::Shortage;
use stitchpool_chunks::Error as Refusal;
use stitchpool_driver::{Address, DeviceId, ErrorKind, Trouble};

/// A refusal of the pool.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Not enough memory, after everything was tried.
    #[error("{0}")]
    OutOfMemory(Box<Shortage>),
    /// A size of 0, or one beyond what lengths are counted in. (A size that is only larger than the
    /// devices is [`Error::OutOfMemory`].)
    #[error("a block of {bytes} bytes cannot be: sizes go from 1 to {limit_bytes} bytes")]
    InvalidSize {
        /// What was asked for.
        bytes: u64,
        /// The largest size there is.
        limit_bytes: u64,
    },
    /// An alignment that is no power of two, or above the granule.
    #[error("an alignment of {alignment_bytes} bytes cannot be: powers of two up to {limit_bytes} bytes can")]
    InvalidAlignment {
        /// What was asked for.
        alignment_bytes: u64,
        /// The granule.
        limit_bytes: u64,
    },
    /// Not the address of a live block of this pool.
    #[error("{address} is not the address of a live block of this pool: {hint}")]
    UnknownAddress {
        /// What was given.
        address: Address,
        /// What it may be instead.
        hint: String,
    },
    /// Not a registered stream of this pool, or one that was retired.
    #[error("stream {serial} is not registered with this pool, or was retired: register it first")]
    UnknownStream {
        /// The stream's number in the pool.
        serial: u32,
    },
    /// Not an arena of this pool, or one that was dissolved.
    #[error("arena {serial} is not one of this pool's, or was dissolved: ask the pool for it by its name")]
    UnknownArena {
        /// The arena's number in the pool.
        serial: u32,
    },
    /// Something was asked of an arena or block that sleeps.
    #[error("{what} is suspended: resume it first")]
    Asleep {
        /// What sleeps.
        what: String,
    },
    /// Another operation on the same arena or block is under way.
    #[error("another operation on {what} is under way: try again when it has ended")]
    Busy {
        /// What is being worked on.
        what: String,
    },
    /// Memory cannot leave its address while a stream is being captured.
    #[error("stream {serial} is being captured, and {operation} would break the capture: end it first")]
    Capturing {
        /// The stream's number in the pool.
        serial: u32,
        /// What was asked for.
        operation: &'static str,
    },
    /// Something is in use that was to go.
    #[error("{what} is in use: {why}")]
    InUse {
        /// What was to go.
        what: String,
        /// Who uses it, and what to do.
        why: String,
    },
    /// A capture was to end that the pool knows nothing of.
    #[error("no capture of stream {serial} is open in this pool: begin one first")]
    NotCapturing {
        /// The stream's number in the pool.
        serial: u32,
    },
    /// An arena in which no graph has memory.
    #[error("{what} has no graph to release: each is released once, after its capture was begun there")]
    NoGraph {
        /// The arena.
        what: String,
    },
    /// A listener has refused to let memory go, or failed.
    #[error("a listener did not let the memory leave its address: {why}")]
    Vetoed {
        /// Its words.
        why: String,
    },
    /// A device would hold more than its limit.
    #[error(
        "{device} holds {held_bytes} of at most {limit_bytes} bytes, too many for {asked_bytes} more: free or suspend blocks, or raise limit_bytes"
    )]
    Limit {
        /// Which device.
        device: DeviceId,
        /// How much more was wanted.
        asked_bytes: u64,
        /// What the pool holds there.
        held_bytes: u64,
        /// What it may hold.
        limit_bytes: u64,
    },
    /// Two ranges that are not laid out alike cannot exchange their memory.
    #[error("the ranges have {} and {} handles, {} and {} bytes: only ranges of the same layout can exchange their memory; allocate both with the same request, or give both the same handle size", handles.0, handles.1, bytes.0, bytes.1)]
    Layout {
        /// How many handles each has.
        handles: (u64, u64),
        /// How long each is.
        bytes: (u64, u64),
    },
    /// A backup that cannot be: the place is the memory's own, or cannot be reached.
    #[error("{0}")]
    Backup(String),
    /// A backup file would not do.
    #[error("the backup file {} could not {what}: {detail}", path.display())]
    Disk {
        /// The file.
        path: std::path::PathBuf,
        /// What it was to do.
        what: &'static str,
        /// What the system said, or what was found.
        detail: String,
    },
    /// The block shares handles with others, so nothing can be done to it alone.
    #[error("the block at {address} shares handles with others: allocate it exclusive, or ask its whole arena")]
    Shared {
        /// The block.
        address: Address,
    },
    /// Something was asked of a block that leases, views or exports hold in place.
    #[error("{holders} leases, views or exports hold the block at {address}: end them first")]
    Held {
        /// The block.
        address: Address,
        /// How many they are.
        holders: u32,
    },
    /// Memory was to leave the process whose handles were not created for that.
    #[error(
        "the handles on {device} are private and cannot be exported: build the pool with kind FileDescriptor (within \
         a host) or Fabric"
    )]
    Private {
        /// Where the memory lies.
        device: DeviceId,
    },
    /// A part of a block that begins or ends inside a handle.
    #[error(
        "{bytes} bytes from {address} are no whole handles, the one there reaches from {start} to {end}: \
         name whole handles, or allocate the block exclusive"
    )]
    NotWhole {
        /// Where the part begins.
        address: Address,
        /// Its length.
        bytes: u64,
        /// Where the handle that is cut begins.
        start: Address,
        /// Where it ends.
        end: Address,
    },
    /// Not a device that the pool was built for.
    #[error("{device} is not one of this pool's devices ({known}): name one of these, or build the pool with it")]
    UnknownDevice {
        /// What was given.
        device: DeviceId,
        /// The devices it has.
        known: String,
    },
    /// A device that may not use the memory.
    #[error("{reader} cannot reach memory of {owner}: there is no peer access between them; {}", Trouble::NoPeer.see())]
    Unreachable {
        /// Who wants to use the memory.
        reader: DeviceId,
        /// Whose memory it is.
        owner: DeviceId,
    },
    /// A stream of a device that has no rights on the block.
    #[error(
        "{device} has no rights on the block at {address}: ask for them with the request; {}", Trouble::NoRights.see()
    )]
    NoRights {
        /// The stream's device.
        device: DeviceId,
        /// The block.
        address: Address,
    },
    /// A setting that cannot be.
    #[error("{0}")]
    Setting(String),
    /// A part of a block was named that reaches beyond it.
    #[error("{bytes} bytes from {address} reach beyond the live block there, which ends at {end}")]
    OutOfRange {
        /// Where the part begins.
        address: Address,
        /// How long it was to be.
        bytes: u64,
        /// Where the block ends.
        end: Address,
    },
    /// A part of a growable buffer was named that reaches beyond its maximum.
    #[error(
        "{bytes} bytes from offset {offset_bytes} reach beyond the buffer's maximum of {max_bytes} bytes: make it with a larger one"
    )]
    BeyondMax {
        /// Where the part begins, from the buffer's first address on.
        offset_bytes: u64,
        /// How long it was to be.
        bytes: u64,
        /// How long the buffer can become.
        max_bytes: u64,
    },
    /// A part of a growable buffer was named that has no memory, or not everywhere.
    #[error("no memory is behind offset {offset_bytes} of the growable buffer: back it first")]
    NotBacked {
        /// The first offset without memory.
        offset_bytes: u64,
    },
    /// Part of a handle was to be given back.
    #[error(
        "offsets {start_bytes} to {end_bytes} of the buffer are one handle, and given back together: name all of it, or make the buffer with a smaller step"
    )]
    PartOfHandle {
        /// Where the handle begins, from the buffer's first address on.
        start_bytes: u64,
        /// Where it ends.
        end_bytes: u64,
    },
    /// Addresses that the driver would not take a mapping from.
    #[error(
        "{bytes} bytes of addresses from {at} are lost, because the driver refused to unmap what stood there: use another buffer"
    )]
    Lost {
        /// Where they begin.
        at: Address,
        /// How many there are.
        bytes: u64,
    },
    /// The pool cannot hold more of something it counts.
    #[error("the pool has {count} {what} already, its limit: {remedy}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// The chunk manager refused.
    #[error(transparent)]
    Chunks(#[from] stitchpool_chunks::Error),
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] stitchpool_driver::Error),
}

impl Error {
    /// Whether a device has not so much memory, or may not be asked for so much.
    pub(crate) fn is_short(&self) -> bool {
        match self {
            Self::Limit { .. } => true,
            Self::Driver(refusal) | Self::Chunks(Refusal::Driver(refusal)) => refusal.kind == ErrorKind::OutOfMemory,
            _ => false,
        }
    }
}

/// What the pool's calls return.
pub type Result<T> = std::result::Result<T, Error>;
