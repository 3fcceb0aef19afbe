//! Streams: what Python callers pass as one, and streams for programs that have no others.

use crate::pool::Pool;
use crate::refused::{Refused, Result};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::atomic::{AtomicBool, Ordering};
use stitchpool_c::{SharedPool, device_of};
use stitchpool_driver::RawStream;
use stitchpool_pool::StreamId;

/// A stream of its own, retired and destroyed when it is closed or nobody has it any more.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Stream {
    pool: Py<Pool>,
    raw: RawStream,
    device: i32,
    /// Iff its value means nothing any more.
    closed: AtomicBool,
}

/// The driver's value of what was passed: a number, or anything that has one. `None` is the default stream.
pub(crate) fn value_of(stream: Option<&Bound<'_, PyAny>>) -> Result<u64> {
    let Some(stream) = stream.filter(|stream| !stream.is_none()) else { return Ok(0) };
    if let Ok(value) = stream.extract::<u64>() {
        return Ok(value);
    }
    if let Ok(protocol) = stream.getattr("__cuda_stream__") {
        let (_, value): (u64, u64) = protocol.call0()?.extract()?;
        return Ok(value);
    }
    match stream.getattr("cuda_stream") {
        Ok(value) => Ok(value.extract()?),
        Err(_) => Err(Refused::request(format!(
            "{} is no stream: pass the driver's number of one, a torch.cuda.Stream, or what has __cuda_stream__",
            stream.get_type()
        ))),
    }
}

/// The stream as a pool knows it; registers it if it is new.
pub(crate) fn registered(pool: SharedPool, device: i32, value: u64) -> Result<StreamId> {
    // SAFETY: every function of the face that takes a stream demands a live one.
    Ok(unsafe { pool.stream(device, value) }?)
}

impl Stream {
    pub(crate) fn open(pool: &Bound<'_, Pool>, device: i32) -> Result<Self> {
        let place = device_of(device)?;
        let on = pool.get();
        let raw = pool.py().detach(|| on.streams()?.create_stream(place).map_err(Refused::from))?;
        Ok(Self { pool: pool.clone().unbind(), raw, device, closed: AtomicBool::new(false) })
    }

    fn end(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let pool = self.pool.get();
        // SAFETY: the stream was created in `open` and lives until `closed` was set, by this call alone.
        // One that was never used is not registered, which is no refusal here.
        let _ = unsafe { pool.shared().retire(self.device, self.raw.value) };
        // SAFETY: as above.
        Ok(unsafe { pool.streams()?.destroy_stream(self.raw) }?)
    }
}

#[pymethods]
impl Stream {
    #[getter]
    const fn cuda_stream(&self) -> u64 {
        self.raw.value
    }

    #[getter]
    const fn device(&self) -> i32 {
        self.device
    }

    const fn __cuda_stream__(&self) -> (u64, u64) {
        (0, self.raw.value)
    }

    fn finish(&self, py: Python<'_>) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Refused::request("this stream was closed"));
        }
        py.detach(|| {
            let streams = self.pool.get().streams()?;
            // SAFETY: it was created in `open` and not closed.
            Ok(unsafe { streams.finish_stream(self.raw) }?)
        })
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| self.end())
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, py: Python<'_>, _reason: &Bound<'_, pyo3::types::PyTuple>) -> Result<()> {
        self.close(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.pool)
    }

    fn __repr__(&self) -> String {
        format!("<stitchpool.Stream {:#x} of device {}>", self.raw.value, self.device)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Whoever drops a stream cannot act on a refusal.
        let _ = self.end();
    }
}
