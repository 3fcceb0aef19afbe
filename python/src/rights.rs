//! What devices may do with memory, as Python callers say it: `{0: "read_write", 1: "read"}`.

use crate::refused::{Refused, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stitchpool_c::device_of;
use stitchpool_driver::{Grant, Rights};

/// The grants of a dict from devices to rights.
pub(crate) fn grants_of(rights: &Bound<'_, PyDict>) -> Result<Vec<Grant>> {
    let mut grants = Vec::with_capacity(rights.len());
    for (device, rights) in rights {
        let device = device_of(device.extract()?)?;
        let rights = match rights.extract::<String>()?.as_str() {
            "none" => Rights::None,
            "read" => Rights::Read,
            "read_write" => Rights::ReadWrite,
            other => {
                return Err(Refused::request(format!("there are no rights {other:?}: say none, read or read_write")));
            }
        };
        grants.push(Grant { device, rights });
    }
    Ok(grants)
}
