//! Where a block's memory shall lie.

use crate::refused::Result;
use pyo3::prelude::*;
use stitchpool_c::device_of;
use stitchpool_driver::DeviceId;
use stitchpool_pool::{Piece, Placement as Rule};

/// A rule that says on which devices memory shall lie.
#[pyclass(frozen, eq, hash, module = "stitchpool", from_py_object)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Placement(pub(crate) Rule);

fn devices(numbers: &[i32]) -> Result<Vec<DeviceId>> {
    Ok(numbers.iter().map(|number| device_of(*number)).collect::<std::result::Result<_, _>>()?)
}

#[pymethods]
impl Placement {
    #[staticmethod]
    fn home(device: i32) -> Result<Self> {
        Ok(Self(Rule::Home(device_of(device)?)))
    }

    #[staticmethod]
    #[pyo3(name = "spill", signature = (*devices))]
    fn onto(devices: Vec<i32>) -> Result<Self> {
        Ok(Self(Rule::Spill(self::devices(&devices)?)))
    }

    #[staticmethod]
    #[pyo3(signature = (*devices, stripe_bytes))]
    fn round_robin(devices: Vec<i32>, stripe_bytes: u64) -> Result<Self> {
        Ok(Self(Rule::RoundRobin { devices: self::devices(&devices)?, stripe_bytes }))
    }

    #[staticmethod]
    fn weighted(weights: Vec<(i32, u32)>) -> Result<Self> {
        let weighted = |(device, weight)| Ok((device_of(device)?, weight));
        Ok(Self(Rule::Weighted(weights.into_iter().map(weighted).collect::<Result<_>>()?)))
    }

    #[staticmethod]
    fn shards(pieces: Vec<(i32, u64)>) -> Result<Self> {
        let piece = |(device, bytes)| Ok(Piece { device: device_of(device)?, bytes });
        Ok(Self(Rule::Shards(pieces.into_iter().map(piece).collect::<Result<_>>()?)))
    }

    fn __repr__(&self) -> String {
        format!("Placement({:?})", self.0)
    }
}
