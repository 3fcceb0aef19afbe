//! What the chunk manager says when it refuses.

use stitchpool_driver::{Address, DeviceId, Trouble};

/// A refusal; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] stitchpool_driver::Error),
    /// A size or offset is 0 or no whole number of granules.
    #[error(
        "{what} of {bytes} bytes is not a whole, positive number of granules of {granule_bytes} bytes: round it up; {}",
        Trouble::Rounding.see()
    )]
    Unaligned {
        /// What was given.
        what: &'static str,
        /// Its value.
        bytes: u64,
        /// The granule it must be a multiple of.
        granule_bytes: u64,
    },
    /// A part lies outside its range.
    #[error("offset {offset_bytes} and length {bytes} reach beyond the range of {range_bytes} bytes at {at}")]
    OutOfRange {
        /// Start of the range.
        at: Address,
        /// Where the part starts in it.
        offset_bytes: u64,
        /// How long the part is.
        bytes: u64,
        /// How long the range is.
        range_bytes: u64,
    },
    /// Memory was asked to go where memory is.
    #[error("memory already stands at {at}: shrink or replace it first")]
    Occupied {
        /// The first address with memory behind it.
        at: Address,
    },
    /// A part has no memory behind it.
    #[error("no memory stands at {at}: stitch it first")]
    NotMapped {
        /// The first address without memory.
        at: Address,
    },
    /// A part begins or ends inside a mapping, which is the atom of all changes.
    #[error("{at} lies inside the mapping [{mapping_at}, +{mapping_bytes}): changes take whole mappings")]
    InsideMapping {
        /// The border that was asked for.
        at: Address,
        /// Start of the mapping it lies in.
        mapping_at: Address,
        /// Length of that mapping.
        mapping_bytes: u64,
    },
    /// A placement that names no device, a weight of 0, or shards that do not add up.
    #[error("placement: {0}")]
    Placement(String),
    /// A device that cannot reach the memory of another.
    #[error(
        "{reader} cannot reach memory of {owner}: no peer access between them; leave it out of the grants or place the memory elsewhere; {}",
        Trouble::NoPeer.see()
    )]
    Unreachable {
        /// Who asked for rights.
        reader: DeviceId,
        /// Whose memory it is.
        owner: DeviceId,
    },
}

impl Error {
    /// The driver's refusal, or this one in the driver's words.
    pub(crate) fn into_refusal(self) -> stitchpool_driver::Error {
        use stitchpool_driver::{ErrorKind, Verb};
        match self {
            Self::Driver(refusal) => refusal,
            other => stitchpool_driver::Error::new(Verb::Map, ErrorKind::InvalidValue, other.to_string()),
        }
    }
}

/// What the chunk manager's calls return.
pub type Result<T> = std::result::Result<T, Error>;
