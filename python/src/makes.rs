//! What a pool gives out: blocks, arenas, streams and the rest, each of which holds the pool.

use crate::arena::Arena;
use crate::block::{Block, Wanted};
use crate::capture::Capture;
use crate::exporter::{Exporter, Offer, Terms};
use crate::figures;
use crate::growable::Growable;
use crate::lease::Lease;
use crate::listener::Listener;
use crate::pin::Pin;
use crate::pool::Pool;
use crate::refused::Result;
use crate::rights::grants_of;
use crate::scope::{range_of, scope_of};
use crate::stream::{Stream, value_of};
use crate::view::View;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

#[pymethods]
impl Pool {
    #[pyo3(signature = (bytes, device = 0, stream = None, alignment = 512, **how))]
    fn alloc(
        slf: &Bound<'_, Self>,
        bytes: u64,
        device: i32,
        stream: Option<&Bound<'_, PyAny>>,
        alignment: u64,
        how: Option<&Bound<'_, PyDict>>,
    ) -> Result<Block> {
        let plain = Wanted { bytes, device, stream: value_of(stream)?, alignment, ..Wanted::default() };
        Block::alloc(slf, plain.told(slf.get(), how)?)
    }

    fn arena(slf: &Bound<'_, Self>, name: String) -> Result<Arena> {
        Arena::named(slf, name)
    }

    #[pyo3(signature = (device = 0))]
    fn stream(slf: &Bound<'_, Self>, device: i32) -> Result<Stream> {
        Stream::open(slf, device)
    }

    #[pyo3(signature = (max_bytes, bytes = 0, device = 0, stream = None, *, step_bytes = None, **how))]
    fn growable(
        slf: &Bound<'_, Self>,
        max_bytes: u64,
        bytes: u64,
        device: i32,
        stream: Option<&Bound<'_, PyAny>>,
        step_bytes: Option<u64>,
        how: Option<&Bound<'_, PyDict>>,
    ) -> Result<Growable> {
        let plain = Wanted { bytes, device, stream: value_of(stream)?, alignment: 512, ..Wanted::default() };
        Growable::make(slf, plain.told(slf.get(), how)?, max_bytes, step_bytes)
    }

    fn view(slf: &Bound<'_, Self>, parts: Vec<Bound<'_, PyAny>>, rights: &Bound<'_, PyDict>) -> Result<View> {
        View::make(slf, &parts, &grants_of(rights)?)
    }

    #[pyo3(signature = (memory, rights = "read", *, ranks = 0, within = 30.0))]
    fn export(
        slf: &Bound<'_, Self>,
        memory: &Bound<'_, PyAny>,
        rights: &str,
        ranks: u32,
        within: f64,
    ) -> Result<Offer> {
        let terms = Terms::understood(rights, ranks, within)?;
        Exporter::offer(&Exporter::own(slf)?, memory, terms)
    }

    #[pyo3(signature = (path = None))]
    fn exporter(slf: &Bound<'_, Self>, path: Option<PathBuf>) -> Result<Exporter> {
        Exporter::open(slf, path)
    }

    #[pyo3(signature = (block, device = 0))]
    fn lease(slf: &Bound<'_, Self>, block: &Bound<'_, PyAny>, device: i32) -> Result<Lease> {
        Lease::take(slf, block, device)
    }

    #[pyo3(signature = (block, device = 0))]
    fn touch(slf: &Bound<'_, Self>, block: &Bound<'_, PyAny>, device: i32) -> Result<Lease> {
        Lease::touch(slf, block, device)
    }

    #[pyo3(signature = (block, bytes = None))]
    fn pin(slf: &Bound<'_, Self>, block: &Bound<'_, PyAny>, bytes: Option<u64>) -> Result<Pin> {
        Pin::make(slf, block, bytes)
    }

    #[pyo3(signature = (before = None, after = None, of = None))]
    fn listen(
        slf: &Bound<'_, Self>,
        before: Option<Py<PyAny>>,
        after: Option<Py<PyAny>>,
        of: Option<&Bound<'_, PyAny>>,
    ) -> Result<Listener> {
        Listener::new(slf, before, after, of)
    }

    #[pyo3(signature = (stream, arena, device = 0))]
    fn capture(
        slf: &Bound<'_, Self>,
        stream: &Bound<'_, PyAny>,
        arena: &Bound<'_, Arena>,
        device: i32,
    ) -> Result<Capture> {
        Capture::of(slf, value_of(Some(stream))?, arena, device)
    }

    #[pyo3(signature = (rights, of = None))]
    fn set_rights(&self, py: Python<'_>, rights: &Bound<'_, PyDict>, of: Option<&Bound<'_, PyAny>>) -> Result<()> {
        let (scope, grants) = (scope_of(self, of)?, grants_of(rights)?);
        py.detach(|| self.unseen(|pool| pool.set_rights(scope, &grants)))
    }

    fn exchange(&self, py: Python<'_>, one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> Result<()> {
        let (one, other) = (scope_of(self, Some(one))?, scope_of(self, Some(other))?);
        py.detach(|| self.unseen(|pool| pool.exchange(one, other)))
    }

    #[pyo3(signature = (block, bytes = None))]
    fn segments<'py>(
        &self,
        py: Python<'py>,
        block: &Bound<'py, PyAny>,
        bytes: Option<u64>,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        let (address, bytes) = range_of(block, bytes)?;
        let found = py.detach(|| self.shared().with(|pool| pool.segments(address, bytes)))??;
        Ok(found.iter().map(|segment| figures::segment(py, segment)).collect::<PyResult<_>>()?)
    }
}
