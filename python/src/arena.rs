//! Arenas, and memory that leaves its address and comes back.

use crate::figures;
use crate::pool::Pool;
use crate::refused::{Refused, Result};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::path::PathBuf;
use stitchpool_c::device_of;
use stitchpool_pool::{ArenaId, Backup, Scope};

/// A named part of a pool, whose blocks sleep, wake and move together.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Arena {
    pool: Py<Pool>,
    name: String,
    id: ArenaId,
}

/// Where content waits: `"host"`, `"discard"`, the number of another device, or a directory.
fn backup_of(backup: Option<&Bound<'_, PyAny>>) -> Result<Backup> {
    let Some(backup) = backup.filter(|backup| !backup.is_none()) else { return Ok(Backup::Host) };
    if let Ok(device) = backup.extract::<i32>() {
        return Ok(Backup::Peer(device_of(device)?));
    }
    match backup.extract::<String>().as_deref() {
        Ok("host") => Ok(Backup::Host),
        Ok("discard") => Ok(Backup::Discard),
        Ok(other) if !other.contains('/') => {
            let words =
                format!("there is no backup {other:?}: say \"host\", \"discard\", a device, or a directory's path");
            Err(Refused::request(words))
        }
        _ => Ok(Backup::Disk(backup.extract::<PathBuf>()?)),
    }
}

/// Gives a scope's memory back.
pub(crate) fn suspend<'py>(
    pool: &Bound<'py, Pool>,
    scope: Scope,
    backup: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let (backup, face) = (backup_of(backup)?, pool.get());
    let done = pool.py().detach(|| face.unseen(|pool| pool.suspend(scope, &backup)))?;
    Ok(figures::suspended(pool.py(), &done)?)
}

/// Takes memory for a scope that sleeps.
pub(crate) fn resume<'py>(pool: &Bound<'py, Pool>, scope: Scope) -> Result<Bound<'py, PyAny>> {
    let shared = pool.get().shared();
    let done = pool.py().detach(|| shared.with(|pool| pool.resume(scope)))??;
    Ok(figures::resumed(pool.py(), &done)?)
}

/// Moves a scope's memory to a device.
pub(crate) fn migrate<'py>(pool: &Bound<'py, Pool>, scope: Scope, device: i32) -> Result<Bound<'py, PyAny>> {
    let (device, face) = (device_of(device)?, pool.get());
    let done = pool.py().detach(|| face.unseen(|pool| pool.migrate(scope, device)))?;
    Ok(figures::migrated(pool.py(), &done)?)
}

impl Arena {
    pub(crate) fn named(pool: &Bound<'_, Pool>, name: String) -> Result<Self> {
        let shared = pool.get().shared();
        let id = pool.py().detach(|| shared.with(|pool| pool.arena(&name)))??;
        Ok(Self { pool: pool.clone().unbind(), name, id })
    }

    pub(crate) const fn id(&self) -> ArenaId {
        self.id
    }

    pub(crate) fn is_of(&self, pool: &Pool) -> bool {
        self.pool.get().shared() == pool.shared()
    }

    const fn scope(&self) -> Scope {
        Scope::Arena(self.id)
    }
}

#[pymethods]
impl Arena {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    const fn number(&self) -> u32 {
        self.id.number()
    }

    #[pyo3(signature = (backup = None))]
    fn suspend<'py>(&self, py: Python<'py>, backup: Option<&Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>> {
        suspend(self.pool.bind(py), self.scope(), backup)
    }

    fn resume<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        resume(self.pool.bind(py), self.scope())
    }

    fn migrate<'py>(&self, py: Python<'py>, device: i32) -> Result<Bound<'py, PyAny>> {
        migrate(self.pool.bind(py), self.scope(), device)
    }

    #[pyo3(signature = (refuge))]
    fn set_evictable(&self, py: Python<'_>, refuge: Option<&Bound<'_, PyAny>>) -> Result<()> {
        let refuge = refuge.map(|refuge| backup_of(Some(refuge))).transpose()?;
        let shared = self.pool.get().shared();
        py.detach(|| Ok(shared.with(|pool| pool.set_evictable(self.id, refuge))??))
    }

    fn release_graph(&self, py: Python<'_>) -> Result<()> {
        let shared = self.pool.get().shared();
        py.detach(|| Ok(shared.with(|pool| pool.release_graph(self.id))??))
    }

    fn dissolve(&self, py: Python<'_>) -> Result<()> {
        let shared = self.pool.get().shared();
        py.detach(|| Ok(shared.with(|pool| pool.dissolve(self.id))??))
    }

    fn __repr__(&self) -> String {
        format!("<stitchpool.Arena {:?}>", self.name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.pool)
    }
}
