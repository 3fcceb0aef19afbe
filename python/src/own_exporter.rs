//! What a pool's own `export` offers by: an exporter with a thread that answers, made when it is first asked for.

use crate::refused::{Refused, Result};
use parking_lot::Mutex;
use stitchpool_c::SharedPool;
use stitchpool_share::{Exporter, Offer};

/// An exporter by its handle in the C interface.
#[derive(Default)]
pub(crate) struct OwnExporter {
    /// 0 iff there is none. Locked only while the interpreter runs on.
    handle: Mutex<usize>,
}

impl OwnExporter {
    /// Its handle; made if there is none yet.
    pub(crate) fn handle(&self, pool: SharedPool) -> Result<usize> {
        let mut handle = self.handle.lock();
        if *handle == 0 {
            let made = pool.with(Exporter::new)?.map_err(Refused::from)?;
            made.serve()?;
            *handle = pool.hold(made)?;
        }
        Ok(*handle)
    }

    /// Ends it, unless something is still offered.
    pub(crate) fn end(&self, pool: SharedPool) -> Result<()> {
        let mut handle = self.handle.lock();
        if *handle == 0 || !matches!(pool.held::<Offer>(), Ok(0)) {
            return Ok(());
        }
        Ok(pool.let_go::<Exporter>(std::mem::take(&mut *handle))?)
    }
}
