//! A plan: where a block shall stand, where its bytes come from, and what that costs. Plain data.

use crate::mapper::chain::Gap;
use crate::miss::candidate::Candidate;
use crate::miss::portion::Lack;
use std::collections::BTreeMap;
use std::fmt;
use stitchpool_driver::DeviceId;

/// Where the block will stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In a gap of a chain and the free extents beside it: from `start` on, which is the gap's start or
    /// lies in the extent before it. Of the extent behind the gap it takes `behind_bytes`.
    Gap { chain: u64, gap: Gap, start: u64, behind_bytes: u64 },
    /// In a chain of its own.
    New,
    /// In a portion of a growable buffer, between these addresses.
    Portion { start: u64, end: u64 },
}

impl Place {
    /// Whether a candidate's bytes are those that the block will stand in.
    pub(crate) const fn holds(&self, candidate: &Candidate) -> bool {
        let (start, end) = match *self {
            Self::New => return false,
            Self::Gap { gap, start, behind_bytes, .. } => (start, gap.end() + behind_bytes),
            Self::Portion { start, end } => (start, end),
        };
        candidate.at < end && start < candidate.at + candidate.bytes
    }
}

/// One source of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Stock { device: DeviceId, bytes: u64 },
    Create { device: DeviceId, bytes: u64 },
    Steal(Candidate),
}

impl Step {
    /// Where it is stolen from.
    pub(crate) const fn stolen_from(&self) -> Option<u64> {
        match self {
            Self::Steal(candidate) => Some(candidate.at),
            _ => None,
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::Stock { bytes, .. } | Self::Create { bytes, .. } => *bytes,
            Self::Steal(candidate) => candidate.bytes,
        }
    }
}

/// The steps for one place, in address order, and what they cost.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) place: Place,
    pub(crate) steps: Vec<Step>,
    pub(crate) cost: Cost,
    /// Whether every piece must be filled to the byte.
    pub(crate) exact: bool,
    /// What no source has, by the device it should lie on.
    pub(crate) missing: BTreeMap<DeviceId, u64>,
    /// For a growable buffer, what is to be backed.
    pub(crate) lack: Lack,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Step) -> bool| {
            let (mut count, mut bytes) = (0, 0);
            for step in self.steps.iter().filter(|step| of(step)) {
                count += 1;
                bytes += step.bytes();
            }
            (count, bytes)
        };
        f.write_str(match self.place {
            Place::Gap { .. } => "in a gap",
            Place::New => "in a chain of its own",
            Place::Portion { .. } => "in a growable buffer",
        })?;
        for (word, (count, bytes)) in [
            ("from stock", sum(|step| matches!(step, Step::Stock { .. }))),
            ("created", sum(|step| matches!(step, Step::Create { .. }))),
            ("taken by alias", sum(|step| matches!(step, Step::Steal(_)))),
        ] {
            if count > 0 {
                write!(f, ", {count} handles ({bytes} bytes) {word}")?;
            }
        }
        write!(f, "; {} waits, {} us of driver time", self.cost.waits, self.cost.driver_ns / 1000)
    }
}

/// What a plan costs; less is better, the first field first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Cost {
    /// Bytes that no source has.
    pub(crate) missing_bytes: u64,
    /// Growth beyond the highest live bytes.
    pub(crate) forced_bytes: u64,
    /// Handles that another stream must be waited for.
    pub(crate) waits: u64,
    /// Driver time, in nanoseconds.
    pub(crate) driver_ns: u64,
}

impl Cost {
    /// Whether it costs nothing but driver time.
    pub(crate) const fn is_calm(&self) -> bool {
        self.missing_bytes == 0 && self.forced_bytes == 0 && self.waits == 0
    }
}
