//! Exports: parts of live blocks whose memory other processes may use, held in place while they do. It
//! knows no other process and no socket.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::grip::Grip;
use crate::mapper::slot::Slot;
use crate::pool::Pool;
use crate::view::Part;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use stitchpool_chunks::{Mapping, PhysicalHandle};
use stitchpool_driver::{Address, HandleKind};

/// Memory that is made ready to leave the process: the physical handles behind parts of live blocks.
///
/// It holds its blocks as leases do: they are not suspended, moved or evicted, and one that is freed goes
/// when the last export of it is gone. Handles are the atom of sharing, so whoever imports a part of a
/// block that shares handles with others sees those too. It keeps its pool alive.
pub struct Export {
    pool: Pool,
    /// By heap and first address.
    held: Vec<(u32, u64)>,
    /// In the order of their addresses, none twice: one behind the other they are what an importer maps.
    handles: Vec<Arc<PhysicalHandle>>,
    parts: Vec<ExportedPart>,
}

/// A part of an export.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExportedPart {
    /// Where it begins in the process that exports it.
    pub address: Address,
    /// Its length in bytes.
    pub bytes: u64,
    /// Where it begins in the export's handles, one behind the other.
    pub offset_bytes: u64,
}

impl Pool {
    /// Makes parts of live blocks ready for other processes, in the order of their addresses where they are
    /// mapped. A part may reach over neighbouring blocks, as the handles of a growable buffer are. Whoever
    /// serves them to other processes says so to this process too: see the crate `stitchpool-share`.
    ///
    /// # Errors
    /// [`Error::Private`] where the pool's handles were not created to be exported, [`Error::UnknownAddress`],
    /// [`Error::OutOfRange`], [`Error::Asleep`], [`Error::Busy`], or [`Error::InvalidSize`] for no parts.
    pub fn export(&self, parts: &[Part]) -> Result<Export> {
        let engine = &*self.engine;
        let mapper = engine.mapper.lock();
        let mut grip = Grip::new(engine);
        let mut slots: BTreeMap<Address, &Mapping> = BTreeMap::new();
        for part in parts {
            grip.hold_run(&mapper, part.address, part.bytes)?;
            let current = mapper.slots_over(part.address, part.address + part.bytes).filter_map(Slot::current);
            slots.extend(current.map(|mapping| (mapping.at(), mapping)));
        }
        let handles: Vec<_> = slots.values().map(|mapping| mapping.handle().clone()).collect();
        if let Some(private) = handles.iter().find(|handle| handle.kind() == HandleKind::Private) {
            return Err(Error::Private { device: private.device() });
        }
        if handles.is_empty() {
            return Err(Error::InvalidSize { bytes: 0, limit_bytes: u64::MAX });
        }
        let placed = placed(slots.into_values(), parts);
        Ok(Export { pool: self.clone(), held: grip.keep(), handles, parts: placed })
    }
}

/// Where each part begins when the mappings stand one behind the other; all of them are found among these.
fn placed<'a>(mappings: impl Iterator<Item = &'a Mapping>, parts: &[Part]) -> Vec<ExportedPart> {
    let mut bytes = 0;
    let mut offsets: BTreeMap<Address, u64> = BTreeMap::new();
    for mapping in mappings {
        offsets.insert(mapping.at(), bytes);
        bytes += mapping.bytes();
    }
    let place = |part: &Part| {
        let (at, offset) = offsets.range(..=part.address).next_back()?;
        let offset_bytes = offset + part.address.bytes_from(*at);
        Some(ExportedPart { address: part.address, bytes: part.bytes, offset_bytes })
    };
    parts.iter().filter_map(place).collect()
}

impl Export {
    /// The handles, in the order in which an importer maps them.
    #[must_use]
    pub fn handles(&self) -> &[Arc<PhysicalHandle>] {
        &self.handles
    }

    /// The parts, in the order in which they were named.
    #[must_use]
    pub fn parts(&self) -> &[ExportedPart] {
        &self.parts
    }

    /// How many bytes the handles have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.handles.iter().map(|handle| handle.bytes()).sum()
    }

    /// How the handles leave the process.
    #[must_use]
    pub fn kind(&self) -> HandleKind {
        self.handles.first().map_or(HandleKind::Private, |handle| handle.kind())
    }

    fn engine(&self) -> &Engine {
        &self.pool.engine
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // The pool counts on a freed block's handles being nobody else's.
        self.handles.clear();
        for &(heap, start) in &self.held {
            if let Some(heap) = self.engine().registry.heap(heap) {
                heap.inside.lock().let_go(start, &[]);
            }
        }
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("bytes", &self.bytes()).field("parts", &self.parts).finish()
    }
}
