//! Refusals as exceptions: which class of `stitchpool.errors` each is, and the facts that it carries.

use crate::figures::holdings;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use stitchpool_c::{Refusal, Status, number_of};
use stitchpool_pool::{Error as PoolError, Shortage};

/// A refusal on its way to Python.
pub(crate) enum Refused {
    /// The pool's, with its facts.
    ByPool(PoolError),
    /// The C interface's: a status and words.
    ByFace(Refusal),
    /// One about other processes: a status and words.
    BySharing(Refusal),
    /// One that is an exception already.
    Raised(PyErr),
}

pub(crate) type Result<T> = std::result::Result<T, Refused>;

impl Refused {
    /// A request that cannot be.
    pub(crate) fn request(words: impl Into<String>) -> Self {
        Self::ByFace(Refusal { status: Status::InvalidArgument, words: words.into() })
    }

    fn into_exception(self, py: Python<'_>) -> PyResult<PyErr> {
        let about_others = matches!(self, Self::BySharing(_));
        let (refusal, facts) = match self {
            Self::Raised(error) => return Ok(error),
            Self::ByFace(refusal) | Self::BySharing(refusal) => (refusal, PyDict::new(py)),
            Self::ByPool(error) => {
                let facts = facts(py, &error)?;
                (Refusal::from(error), facts)
            }
        };
        let class = match class(refusal.status) {
            "DriverError" if about_others => "SharingError",
            other => other,
        };
        let class = py.import("stitchpool.errors")?.getattr(class)?;
        facts.set_item("status", name(refusal.status))?;
        Ok(PyErr::from_value(class.call((refusal.words,), Some(&facts))?))
    }
}

impl From<PoolError> for Refused {
    fn from(error: PoolError) -> Self {
        Self::ByPool(error)
    }
}

impl From<stitchpool_share::Error> for Refused {
    fn from(error: stitchpool_share::Error) -> Self {
        match error {
            stitchpool_share::Error::Pool(error) => Self::ByPool(error),
            stitchpool_share::Error::Driver(error) => error.into(),
            other => Self::BySharing(other.into()),
        }
    }
}

impl From<stitchpool_driver::Error> for Refused {
    fn from(error: stitchpool_driver::Error) -> Self {
        Self::ByPool(error.into())
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::ByFace(refusal)
    }
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Refused> for PyErr {
    fn from(refused: Refused) -> Self {
        Python::attach(|py| refused.into_exception(py).unwrap_or_else(|error| error))
    }
}

/// The class of `stitchpool.errors` for a status.
const fn class(status: Status) -> &'static str {
    match status {
        Status::OutOfMemory => "OutOfMemory",
        Status::NullPointer
        | Status::InvalidArgument
        | Status::InvalidSize
        | Status::InvalidAlignment
        | Status::OutOfRange
        | Status::TooSmall
        | Status::UnknownArena
        | Status::Shared => "InvalidRequest",
        Status::Asleep => "Asleep",
        Status::Capture => "Capturing",
        Status::Vetoed => "Vetoed",
        Status::UnknownAddress => "UnknownPointer",
        Status::UnknownStream => "UnknownStream",
        Status::UnknownDevice => "UnknownDevice",
        Status::Unreachable => "Unreachable",
        Status::NoRights => "NoRights",
        Status::TooMany => "TooMany",
        Status::InUse | Status::Busy | Status::Held => "InUse",
        Status::InvalidHandle => "Closed",
        Status::Unavailable => "Unavailable",
        Status::Stale | Status::Gone => "Gone",
        Status::CalledOff => "CalledOff",
        _ => "DriverError",
    }
}

/// A status as the header spells it, without the prefix.
fn name(status: Status) -> &'static str {
    let found = Status::ALL.iter().find(|(known, _)| *known == status);
    let spelled = found.and_then(|(_, name)| name.to_str().ok()).unwrap_or_default();
    spelled.trim_start_matches("STITCHPOOL_")
}

fn facts<'py>(py: Python<'py>, error: &PoolError) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    match error {
        PoolError::OutOfMemory(shortage) => of_shortage(&facts, shortage)?,
        PoolError::Driver(error) => of_driver(&facts, error)?,
        _ => {}
    }
    Ok(facts)
}

fn of_shortage(facts: &Bound<'_, PyDict>, shortage: &Shortage) -> PyResult<()> {
    let py = facts.py();
    facts.set_item("device", shortage.devices.first().map(|holdings| number_of(holdings.device)))?;
    facts.set_item("asked_bytes", shortage.asked_bytes)?;
    facts.set_item("missing_bytes", shortage.missing_bytes)?;
    facts.set_item("driver_call", shortage.refusal.as_ref().map(ToString::to_string))?;
    let devices = shortage.devices.iter().map(|found| holdings(py, found)).collect::<PyResult<Vec<_>>>()?;
    facts.set_item("devices", PyTuple::new(py, devices)?)
}

fn of_driver(facts: &Bound<'_, PyDict>, error: &stitchpool_driver::Error) -> PyResult<()> {
    facts.set_item("device", error.device.map(number_of))?;
    facts.set_item("driver_call", error.to_string())
}
