//! Importers, imports and holds for Python callers: memory of other processes.

use crate::exporter::seconds;
use crate::options::Options;
use crate::refused::{Refused, Result};
use crate::rights::grants_of;
use parking_lot::Mutex;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use stitchpool_c::number_of;
use stitchpool_driver::{Address, Grant, Rights};
use stitchpool_share::Ticket;

/// Imports memory that one exporter offers.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Importer {
    importer: stitchpool_share::Importer,
    driver: &'static str,
}

/// Memory of another process that is mapped here.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Import {
    importer: Py<Importer>,
    /// None iff it was closed.
    import: Mutex<Option<stitchpool_share::Import>>,
    bytes: u64,
    generation: u64,
    is_writable: bool,
}

/// Keeps imported memory mapped.
#[pyclass(frozen, weakref, module = "stitchpool")]
pub(crate) struct Hold {
    /// None iff it was ended.
    hold: Mutex<Option<stitchpool_share::Hold>>,
}

#[pymethods]
impl Importer {
    #[new]
    #[pyo3(signature = (ticket, driver = "auto", *, patience = 10.0, **settings))]
    fn new(
        py: Python<'_>,
        ticket: &[u8],
        driver: &str,
        patience: f64,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self> {
        let (ticket, options) = (Ticket::of_bytes(ticket)?, Options::read(settings)?);
        let patience = seconds("patience", patience)?;
        py.detach(|| {
            let opened = options.open(driver)?;
            let driver = opened.driver.name();
            Ok(Self { importer: stitchpool_share::Importer::connect_within(opened.driver, &ticket, patience)?, driver })
        })
    }

    #[getter]
    const fn driver(&self) -> &'static str {
        self.driver
    }

    #[getter]
    fn pid(&self) -> i32 {
        self.importer.pid()
    }

    fn device_of(&self, ticket: &[u8]) -> Result<i32> {
        Ok(number_of(self.importer.device_of(&Ticket::of_bytes(ticket)?)?))
    }

    #[pyo3(signature = (ticket, rights = None))]
    fn open(slf: &Bound<'_, Self>, ticket: &[u8], rights: Option<&Bound<'_, PyDict>>) -> Result<Import> {
        let ticket = Ticket::of_bytes(ticket)?;
        let importer = &slf.get().importer;
        let grants = match rights {
            Some(rights) => grants_of(rights)?,
            None => vec![Grant { device: importer.device_of(&ticket)?, rights: Rights::Read }],
        };
        let import = slf.py().detach(|| importer.import(&ticket, &grants))?;
        Ok(Import {
            importer: slf.clone().unbind(),
            bytes: import.bytes(),
            generation: import.generation(),
            is_writable: import.rights() == Rights::ReadWrite,
            import: Mutex::new(Some(import)),
        })
    }

    fn watch(&self) -> Result<()> {
        Ok(self.importer.watch()?)
    }

    #[pyo3(signature = (wait = 0.0))]
    fn poll(&self, py: Python<'_>, wait: f64) -> Result<usize> {
        let wait = seconds("wait", wait)?;
        Ok(py.detach(|| self.importer.poll(wait))?)
    }
}

impl Import {
    fn hold_it(&self) -> Result<stitchpool_share::Hold> {
        let import = self.import.lock();
        let import = import.as_ref().ok_or_else(|| Refused::request("this import was closed: open it again"))?;
        Ok(import.hold()?)
    }

    /// Its mappings wait for devices when they go, for which Python need not stand still.
    fn end(&self) {
        let import = self.import.lock().take();
        drop_detached(import);
    }
}

fn drop_detached<T: Send>(thing: T) {
    let mut thing = Some(thing);
    let _ = Python::try_attach(|py| {
        let thing = thing.take();
        py.detach(move || drop(thing));
    });
}

#[pymethods]
impl Import {
    #[getter]
    fn address(&self) -> Result<u64> {
        Ok(self.hold_it()?.address().0)
    }

    #[getter]
    const fn bytes(&self) -> u64 {
        self.bytes
    }

    #[getter]
    const fn generation(&self) -> u64 {
        self.generation
    }

    #[getter]
    fn importer(&self, py: Python<'_>) -> Py<Importer> {
        self.importer.clone_ref(py)
    }

    #[getter]
    fn parts(&self) -> Result<Vec<(u64, u64)>> {
        let hold = self.hold_it()?;
        let parts = (0..hold.parts()).filter_map(|index| hold.part(index));
        Ok(parts.map(|(address, bytes)| (address.0, bytes)).collect())
    }

    fn translate(&self, address: u64) -> Result<Option<u64>> {
        Ok(self.hold_it()?.translate(Address(address)).map(|address| address.0))
    }

    #[getter]
    fn gone(&self) -> Option<String> {
        self.import.lock().as_ref().and_then(|import| import.gone()).map(|why| why.to_string())
    }

    fn hold(&self) -> Result<Hold> {
        Ok(Hold { hold: Mutex::new(Some(self.hold_it()?)) })
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        if self.importer.get().driver == "host" {
            return Err(PyAttributeError::new_err("memory of the host driver is no memory of a GPU").into());
        }
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.bytes,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.hold_it()?.address().0, !self.is_writable))?;
        interface.set_item("version", 3)?;
        interface.set_item("stream", py.None())?;
        Ok(interface)
    }

    fn close(&self) {
        self.end();
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, _reason: &Bound<'_, PyTuple>) {
        self.end();
    }

    fn __repr__(&self) -> String {
        let state = if self.hold_it().is_err() { ", gone" } else { "" };
        format!("<stitchpool.Import generation {} of {} bytes{state}>", self.generation, self.bytes)
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl Hold {
    #[getter]
    fn address(&self) -> Result<u64> {
        let hold = self.hold.lock();
        let hold = hold.as_ref().ok_or_else(|| Refused::request("this hold was ended: take another one"))?;
        Ok(hold.address().0)
    }

    fn close(&self) {
        drop_detached(self.hold.lock().take());
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, _reason: &Bound<'_, PyTuple>) {
        self.close();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.close();
    }
}
