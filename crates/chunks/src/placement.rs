//! Where the bytes of a range shall lie: pure arithmetic over devices and granules.

use crate::{Error, Result};
use stitchpool_driver::DeviceId;

/// A rule that says on which devices memory shall lie.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Placement {
    /// All of it on one device.
    Home(DeviceId),
    /// On the first of these that has room, the rest on the next, and so on.
    Spill(Vec<DeviceId>),
    /// Stripes of so many bytes, dealt to the devices in turn.
    RoundRobin {
        /// The devices, in the order of the deal.
        devices: Vec<DeviceId>,
        /// The length of a stripe: whole granules.
        stripe_bytes: u64,
    },
    /// One run a device, in proportion to the weights.
    Weighted(Vec<(DeviceId, u32)>),
    /// Exactly these runs, in this order.
    Shards(Vec<Piece>),
}

/// A run of bytes on one device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Piece {
    /// Where.
    pub device: DeviceId,
    /// How long: whole granules.
    pub bytes: u64,
}

impl Placement {
    /// The device that comes first, where there is one.
    #[must_use]
    pub fn home(&self) -> Option<DeviceId> {
        match self {
            Self::Home(device) => Some(*device),
            Self::Spill(devices) | Self::RoundRobin { devices, .. } => devices.first().copied(),
            Self::Weighted(weights) => weights.first().map(|(device, _)| *device),
            Self::Shards(pieces) => pieces.first().map(|piece| piece.device),
        }
    }

    /// Every device it names, each once, in order of first mention.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceId> {
        let named: Vec<DeviceId> = match self {
            Self::Home(device) => vec![*device],
            Self::Spill(devices) | Self::RoundRobin { devices, .. } => devices.clone(),
            Self::Weighted(weights) => weights.iter().map(|(device, _)| *device).collect(),
            Self::Shards(pieces) => pieces.iter().map(|piece| piece.device).collect(),
        };
        let mut once = Vec::with_capacity(named.len());
        for device in named {
            if !once.contains(&device) {
                once.push(device);
            }
        }
        once
    }

    /// The devices to try, in order, when the one a piece names is full.
    #[must_use]
    pub fn fallbacks(&self) -> &[DeviceId] {
        match self {
            Self::Spill(devices) => devices.get(1..).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The pieces of a range of `bytes`, in address order. A spilling placement gives one piece on
    /// its first device: only the attempt tells where the rest must go.
    ///
    /// # Errors
    /// [`Error::Unaligned`] for sizes that are no whole granules; [`Error::Placement`] for a rule
    /// that names no device or does not add up to `bytes`.
    pub fn pieces(&self, bytes: u64, granule_bytes: u64) -> Result<Vec<Piece>> {
        whole_granules("range", bytes, granule_bytes)?;
        match self {
            Self::Home(device) => Ok(vec![Piece { device: *device, bytes }]),
            Self::Spill(devices) => match devices.first() {
                Some(&device) => Ok(vec![Piece { device, bytes }]),
                None => Err(Error::Placement("a spilling placement names no device".into())),
            },
            Self::RoundRobin { devices, stripe_bytes } => stripes(devices, *stripe_bytes, bytes, granule_bytes),
            Self::Weighted(weights) => weighted(weights, bytes, granule_bytes),
            Self::Shards(shards) => exact(shards, bytes, granule_bytes),
        }
    }
}

fn whole_granules(what: &'static str, bytes: u64, granule_bytes: u64) -> Result<()> {
    if bytes == 0 || !bytes.is_multiple_of(granule_bytes) {
        return Err(Error::Unaligned { what, bytes, granule_bytes });
    }
    Ok(())
}

fn stripes(devices: &[DeviceId], stripe_bytes: u64, bytes: u64, granule_bytes: u64) -> Result<Vec<Piece>> {
    whole_granules("stripe", stripe_bytes, granule_bytes)?;
    if devices.is_empty() {
        return Err(Error::Placement("a round robin names no device".into()));
    }
    let starts = (0..bytes).step_by(usize::try_from(stripe_bytes).unwrap_or(usize::MAX));
    let pieces = starts.zip(devices.iter().cycle());
    Ok(pieces.map(|(start, &device)| Piece { device, bytes: stripe_bytes.min(bytes - start) }).collect())
}

fn weighted(weights: &[(DeviceId, u32)], bytes: u64, granule_bytes: u64) -> Result<Vec<Piece>> {
    let total: u128 = weights.iter().map(|(_, weight)| u128::from(*weight)).sum();
    if total == 0 {
        return Err(Error::Placement("the weights add up to 0: give at least one device a weight".into()));
    }
    let granules = u128::from(bytes / granule_bytes);
    let mut pieces = Vec::with_capacity(weights.len());
    // Borders are rounded, not lengths, so that the lengths add up and no device is a granule short twice.
    let (mut weight_so_far, mut border) = (0, 0);
    for &(device, weight) in weights {
        weight_so_far += u128::from(weight);
        let next = (granules * weight_so_far + total / 2) / total;
        if next > border {
            let granules = u64::try_from(next - border).unwrap_or(u64::MAX);
            pieces.push(Piece { device, bytes: granules * granule_bytes });
        }
        border = next;
    }
    Ok(pieces)
}

fn exact(shards: &[Piece], bytes: u64, granule_bytes: u64) -> Result<Vec<Piece>> {
    let mut total: u64 = 0;
    for shard in shards {
        whole_granules("shard", shard.bytes, granule_bytes)?;
        total = total.checked_add(shard.bytes).ok_or_else(|| Error::Placement("the shards overflow".into()))?;
    }
    if total != bytes {
        return Err(Error::Placement(format!("the shards add up to {total} bytes, the range has {bytes}")));
    }
    Ok(shards.to_vec())
}
