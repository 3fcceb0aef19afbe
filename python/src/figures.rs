//! What a pool holds and has done, as the dataclasses of `stitchpool.figures`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use stitchpool_c::number_of;
use stitchpool_pool::{DeviceStats, Holdings, Migrated, Resumed, Segment, Shortage, Stats, Suspended, Trimmed};

/// One of the dataclasses, from its fields.
fn made<'py>(class: &str, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    fields.py().import("stitchpool.figures")?.getattr(class)?.call((), Some(fields))
}

macro_rules! fields {
    ($py:expr, $from:expr, $($name:ident),*) => {{
        let fields = PyDict::new($py);
        $(fields.set_item(stringify!($name), $from.$name)?;)*
        fields
    }};
}

fn held<'py>(py: Python<'py>, holdings: &Holdings) -> PyResult<Bound<'py, PyDict>> {
    let fields = fields!(
        py,
        holdings,
        limit_bytes,
        physical_bytes,
        live_bytes,
        leased_bytes,
        remote_bytes,
        free_bytes,
        pending_bytes,
        stranded_bytes,
        quarantined_bytes,
        suspended_bytes,
        backup_bytes,
        pinned_bytes,
        kept_bytes,
        device_free_bytes
    );
    fields.set_item("device", number_of(holdings.device))?;
    Ok(fields)
}

/// What holds a device's memory.
pub(crate) fn holdings<'py>(py: Python<'py>, holdings: &Holdings) -> PyResult<Bound<'py, PyAny>> {
    made("Holdings", &held(py, holdings)?)
}

fn device<'py>(py: Python<'py>, stats: &DeviceStats) -> PyResult<Bound<'py, PyAny>> {
    let fields = held(py, &stats.holdings)?;
    fields.set_item("physical_peak_bytes", stats.physical_peak_bytes)?;
    fields.set_item("live_peak_bytes", stats.live_peak_bytes)?;
    made("DeviceStats", &fields)
}

/// All figures of a pool.
pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(
        py,
        stats,
        allocs,
        frees,
        misses,
        handles_created,
        handles_released,
        handles_aliased,
        handles_unmapped,
        stale_mappings,
        stream_waits,
        cpu_waits,
        forced_bytes,
        evictions,
        evicted_bytes,
        returned_bytes,
        live_blocks,
        metadata_bytes,
        quarantined
    );
    let devices = stats.devices.iter().map(|figures| device(py, figures)).collect::<PyResult<Vec<_>>>()?;
    fields.set_item("devices", PyTuple::new(py, devices)?)?;
    made("Stats", &fields)
}

/// What a trim has done.
pub(crate) fn trimmed<'py>(py: Python<'py>, trimmed: &Trimmed) -> PyResult<Bound<'py, PyAny>> {
    made("Trimmed", &fields!(py, trimmed, released_bytes, waiting_bytes))
}

/// What a suspend has done.
pub(crate) fn suspended<'py>(py: Python<'py>, done: &Suspended) -> PyResult<Bound<'py, PyAny>> {
    made("Suspended", &fields!(py, done, already, released_bytes, backup_bytes, not_yet_visible_bytes))
}

/// What a resume has done.
pub(crate) fn resumed<'py>(py: Python<'py>, done: &Resumed) -> PyResult<Bound<'py, PyAny>> {
    made("Resumed", &fields!(py, done, already, taken_bytes, restored_bytes))
}

/// What a migration has done.
pub(crate) fn migrated<'py>(py: Python<'py>, done: &Migrated) -> PyResult<Bound<'py, PyAny>> {
    made("Migrated", &fields!(py, done, moved_bytes, copied_bytes))
}

/// A piece of memory behind a range.
pub(crate) fn segment<'py>(py: Python<'py>, segment: &Segment) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, segment, bytes, offset_bytes);
    fields.set_item("address", segment.at.0)?;
    fields.set_item("handle", segment.handle.0)?;
    fields.set_item("device", number_of(segment.device))?;
    made("Segment", &fields)
}

/// What a request lacks, for whoever may help.
pub(crate) fn shortage<'py>(py: Python<'py>, shortage: &Shortage) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, shortage, asked_bytes, missing_bytes);
    let devices = shortage.devices.iter().map(|found| holdings(py, found)).collect::<PyResult<Vec<_>>>()?;
    fields.set_item("devices", PyTuple::new(py, devices)?)?;
    fields.set_item("words", shortage.to_string())?;
    made("Shortage", &fields)
}
