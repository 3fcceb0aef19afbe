//! A thing of a pool's that a Python object holds: by its handle in the C interface, so that a pool that was
//! closed, or is the parent's of a fork, is a refusal here too.

use crate::pool::Pool;
use crate::refused::{Refused, Result};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use stitchpool_c::Shelved;
use stitchpool_driver::Address;

/// What a `with` statement asks of a class: its object is closed where the statement's block ends.
macro_rules! closes_with_its_block {
    ($class:ident) => {
        #[pyo3::pymethods]
        impl $class {
            const fn __enter__(slf: pyo3::Py<Self>) -> pyo3::Py<Self> {
                slf
            }

            #[pyo3(signature = (*_reason))]
            fn __exit__(
                &self,
                py: pyo3::Python<'_>,
                _reason: &pyo3::Bound<'_, pyo3::types::PyTuple>,
            ) -> crate::refused::Result<()> {
                self.close(py)
            }
        }
    };
}
pub(crate) use closes_with_its_block;

/// It goes when it is ended, or with the object.
pub(crate) struct Held<T: Shelved> {
    pool: Py<Pool>,
    /// 0 iff it was ended.
    handle: AtomicUsize,
    kind: PhantomData<fn() -> T>,
}

impl<T: Shelved + Send> Held<T> {
    /// Makes a thing of a pool's, and holds it.
    pub(crate) fn make<E>(
        pool: &Bound<'_, Pool>,
        make: impl FnOnce(&stitchpool_pool::Pool) -> std::result::Result<T, E> + Send,
    ) -> Result<Self>
    where
        Refused: From<E>,
    {
        let shared = pool.get().shared();
        let handle = pool.py().detach(|| {
            let thing = shared.with(make)?.map_err(Refused::from)?;
            Ok::<_, Refused>(shared.hold(thing)?)
        })?;
        Ok(Self { pool: pool.clone().unbind(), handle: AtomicUsize::new(handle), kind: PhantomData })
    }
}

impl<T: Shelved> Held<T> {
    pub(crate) fn pool(&self) -> &Pool {
        self.pool.get()
    }

    /// Does something with it, while the interpreter runs on.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, body: impl FnOnce(&T) -> R + Send) -> Result<R> {
        self.with_pool(py, |_, thing| body(thing))
    }

    /// The same, with the pool.
    pub(crate) fn with_pool<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&stitchpool_pool::Pool, &T) -> R + Send,
    ) -> Result<R> {
        let (shared, handle) = (self.pool.get().shared(), self.handle()?);
        py.detach(|| Ok(shared.with_held(handle, body)?))
    }

    pub(crate) fn handle(&self) -> Result<usize> {
        match self.handle.load(Ordering::Acquire) {
            0 => Err(Refused::request("this was ended already: make another one")),
            handle => Ok(handle),
        }
    }

    /// Ends it; once more is nothing.
    pub(crate) fn end(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| self.finish())
    }

    fn finish(&self) -> Result<()> {
        match self.handle.swap(0, Ordering::AcqRel) {
            0 => Ok(()),
            handle => Ok(self.pool.get().shared().let_go::<T>(handle)?),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.handle.load(Ordering::Acquire) == 0
    }

    /// What its object shows of it.
    pub(crate) fn words(&self, class: &str, address: Address, bytes: u64) -> String {
        let state = if self.is_over() { ", ended" } else { "" };
        format!("<stitchpool.{class} {bytes} bytes at {address}{state}>")
    }

    pub(crate) fn visit(&self, visit: &PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.pool)
    }
}

impl<T: Shelved> Drop for Held<T> {
    fn drop(&mut self) {
        // Whoever drops it cannot act on a refusal.
        let _ = self.finish();
    }
}
