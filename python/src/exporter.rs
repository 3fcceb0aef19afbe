//! Exporters and offers for Python callers: memory of a pool for other processes.

use crate::arena::Arena;
use crate::held::{Held, closes_with_its_block};
use crate::pool::Pool;
use crate::refused::{Refused, Result};
use crate::view::part_of;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use pyo3::{PyTraverseError, PyVisit};
use std::path::PathBuf;
use std::time::Duration;
use stitchpool_driver::Rights;
use stitchpool_pool::Part;
use stitchpool_share::Together;

/// Offers memory of a pool to other processes of the same user.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Exporter {
    held: Held<stitchpool_share::Exporter>,
    pool: Py<Pool>,
}

/// Memory that is offered.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Offer {
    held: Held<stitchpool_share::Offer>,
    /// The exporter's handle.
    exporter: usize,
    /// Its object, if it has one: it ends the exporter when it goes.
    keeps: Option<Py<Exporter>>,
    ticket: stitchpool_share::Ticket,
}

/// On what terms memory is offered.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) rights: Rights,
    pub(crate) together: Option<Together>,
}

impl Terms {
    /// As callers say them.
    pub(crate) fn understood(rights: &str, ranks: u32, within: f64) -> Result<Self> {
        let rights = match rights {
            "read" => Rights::Read,
            "read_write" => Rights::ReadWrite,
            other => return Err(Refused::request(format!("memory is offered to read or read_write, not {other:?}"))),
        };
        let together = Together { ranks, within: seconds("within", within)? };
        Ok(Self { rights, together: (ranks > 0).then_some(together) })
    }
}

/// A number of seconds.
pub(crate) fn seconds(name: &str, value: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| Refused::request(format!("{name} is {value}: it must be seconds")))
}

/// A block, an arena, (address, bytes), or a list of such.
fn parts_of(pool: &Bound<'_, Pool>, memory: &Bound<'_, PyAny>) -> Result<Vec<Part>> {
    if let Ok(list) = memory.cast::<PyList>() {
        let mut parts = Vec::new();
        for one in list {
            parts.extend(parts_of(pool, &one)?);
        }
        return Ok(parts);
    }
    match memory.cast::<Arena>() {
        Ok(arena) => {
            let (arena, shared) = (arena.get().id(), pool.get().shared());
            Ok(pool.py().detach(|| shared.with(|pool| pool.blocks_of(arena)))??)
        }
        Err(_) => Ok(vec![part_of(pool.get(), memory)?]),
    }
}

impl Exporter {
    pub(crate) fn open(pool: &Bound<'_, Pool>, path: Option<PathBuf>) -> Result<Self> {
        let held = Held::<stitchpool_share::Exporter>::make(pool, |pool| match &path {
            Some(path) => stitchpool_share::Exporter::at_path(pool, path),
            None => stitchpool_share::Exporter::new(pool),
        })?;
        Ok(Self { held, pool: pool.clone().unbind() })
    }
}

impl Offer {
    /// By the exporter with this handle.
    pub(crate) fn make(
        pool: &Bound<'_, Pool>,
        exporter: usize,
        memory: &Bound<'_, PyAny>,
        terms: Terms,
    ) -> Result<Self> {
        let parts = parts_of(pool, memory)?;
        let shared = pool.get().shared();
        let made = |_: &stitchpool_pool::Pool| {
            let offered =
                shared.with_held::<stitchpool_share::Exporter, _>(exporter, |_, exporter| match terms.together {
                    Some(together) => exporter.offer_together(&parts, terms.rights, together),
                    None => exporter.offer(&parts, terms.rights),
                })?;
            offered.map_err(Refused::from)
        };
        let held = Held::<stitchpool_share::Offer>::make(pool, made)?;
        let ticket = held.with(pool.py(), |offer| offer.ticket().clone())?;
        Ok(Self { held, exporter, keeps: None, ticket })
    }
}

closes_with_its_block!(Exporter);

#[pymethods]
impl Exporter {
    #[pyo3(signature = (memory, rights = "read", *, ranks = 0, within = 30.0))]
    fn export(
        slf: &Bound<'_, Self>,
        memory: &Bound<'_, PyAny>,
        rights: &str,
        ranks: u32,
        within: f64,
    ) -> Result<Offer> {
        let (pool, exporter) = (slf.get().pool.bind(slf.py()), slf.get().held.handle()?);
        let made = Offer::make(pool, exporter, memory, Terms::understood(rights, ranks, within)?)?;
        Ok(Offer { keeps: Some(slf.clone().unbind()), ..made })
    }

    fn serve(&self, py: Python<'_>) -> Result<()> {
        Ok(self.held.with(py, stitchpool_share::Exporter::serve)??)
    }

    #[pyo3(signature = (wait = 0.0))]
    fn answer(&self, py: Python<'_>, wait: f64) -> Result<u64> {
        let wait = seconds("wait", wait)?;
        Ok(self.held.with(py, |exporter| exporter.answer(wait))??)
    }

    fn guests(&self, py: Python<'_>) -> Result<Vec<(i32, u32, u64)>> {
        let guests = self.held.with(py, stitchpool_share::Exporter::guests)?;
        Ok(guests.into_iter().map(|guest| (guest.pid, guest.imports, guest.bytes)).collect())
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        self.held.end(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.pool)?;
        self.held.visit(&visit)
    }
}

closes_with_its_block!(Offer);

#[pymethods]
impl Offer {
    #[getter]
    fn ticket<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.ticket.to_bytes())
    }

    #[getter]
    const fn generation(&self) -> u64 {
        self.ticket.generation()
    }

    #[getter]
    const fn bytes(&self) -> u64 {
        self.ticket.part_bytes()
    }

    #[pyo3(signature = (within = 10.0))]
    fn recall(&self, py: Python<'_>, within: f64) -> Result<()> {
        let (within, exporter) = (seconds("within", within)?, self.exporter);
        let shared = self.held.pool().shared();
        let recalled = self.held.with(py, |offer| {
            shared.with_held::<stitchpool_share::Exporter, _>(exporter, |_, exporter| exporter.recall(offer, within))
        })?;
        Ok(recalled??)
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        self.held.end(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.held.is_over() { ", ended" } else { "" };
        format!("<stitchpool.Offer generation {} of {} bytes{state}>", self.generation(), self.bytes())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.keeps)?;
        self.held.visit(&visit)
    }
}
