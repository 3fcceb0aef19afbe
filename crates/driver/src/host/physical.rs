//! Physical handles and the memory they name. Memory lives while a handle or a mapping names it.

use super::config::{HostConfig, Quirks};
use super::fabric;
use super::place::{Place, Places};
use super::store::{is_exportable, open_exportable};
use crate::{DeviceId, Error, ErrorKind, HandleKind, HandleSpec, RawHandle, Result, Shareable, Verb};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;

/// Every live handle, and all memory that is still named by somebody.
#[derive(Debug)]
pub(super) struct Physicals {
    handles: BTreeMap<u64, Handle>,
    memories: BTreeMap<MemoryId, Memory>,
    /// Exportable memory by its file, so that it is known again when it is imported.
    files: BTreeMap<FileId, MemoryId>,
    descriptor_limit: u64,
    grants_fabric: bool,
    quirks: Quirks,
    /// Never given twice, so that a stale handle is always seen.
    next: u64,
}

/// One memory, whichever handles name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemoryId(u64);

/// What a live handle names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub(super) spec: HandleSpec,
    pub(super) memory: MemoryId,
}

#[derive(Debug)]
struct Memory {
    spec: HandleSpec,
    /// Index of the place it lies on.
    place: usize,
    source: Source,
    /// Handles, mappings and withholding reservations that name it; never 0 here.
    users: u64,
}

/// Where the bytes are.
#[derive(Debug)]
enum Source {
    /// A run of the place's store.
    Run { offset: u64 },
    /// A file of its own. `counted` iff this driver created it.
    File { file: OwnedFd, id: FileId, counted: bool },
}

type FileId = (u64, u64);

impl Physicals {
    pub(super) fn new(config: &HostConfig) -> Self {
        let (handles, memories, files) = Default::default();
        let &HostConfig { descriptor_limit, fabric: grants_fabric, quirks, .. } = config;
        Self { handles, memories, files, descriptor_limit, grants_fabric, quirks, next: 1 }
    }

    pub(super) fn create(&mut self, places: &mut Places, spec: HandleSpec) -> Result<RawHandle> {
        let index = places.index(Verb::Create, spec.device)?;
        self.admit(places.at(index), spec).map_err(|error| error.on(spec.device).of(spec.bytes))?;
        let place = places.at_mut(index);
        let source = match spec.kind {
            HandleKind::FileDescriptor | HandleKind::Fabric => {
                self.admit_descriptor(Verb::Create)?;
                let file = open_exportable(spec.bytes).map_err(|error| system(Verb::Create, error).of(spec.bytes))?;
                let id = file_id(Verb::Create, file.as_fd())?;
                Source::File { file, id, counted: true }
            }
            HandleKind::Private => {
                let offset =
                    place.store.take(spec.bytes).map_err(|error| system(Verb::Create, error).of(spec.bytes))?;
                Source::Run { offset }
            }
        };
        place.used_bytes += spec.bytes;
        Ok(self.insert(spec, index, source))
    }

    /// Whether a place can give such a handle.
    fn admit(&self, place: &Place, spec: HandleSpec) -> Result<()> {
        let refused = |kind, detail| Err(Error::new(Verb::Create, kind, detail));
        let granularity_bytes = place.shape.granularity_bytes;
        let free_bytes = place.memory().free_bytes;
        if spec.bytes == 0 || !spec.bytes.is_multiple_of(granularity_bytes) {
            let detail = format!("the size must be a multiple of the granularity of {granularity_bytes} bytes, not 0");
            return refused(ErrorKind::InvalidValue, detail);
        }
        if spec.kind == HandleKind::Fabric && !self.grants_fabric {
            return refused(
                ErrorKind::NotPermitted,
                "fabric handles are not granted here; ask for another kind".into(),
            );
        }
        if spec.bytes > free_bytes {
            return refused(ErrorKind::OutOfMemory, format!("{free_bytes} bytes are free"));
        }
        match self.quirks.exportable_limit_bytes {
            Some(limit_bytes) if spec.kind != HandleKind::Private && spec.bytes >= limit_bytes => {
                let detail = format!("an exportable handle must be smaller than {limit_bytes} bytes");
                return refused(ErrorKind::OutOfMemory, detail);
            }
            _ => {}
        }
        match self.quirks.live_limit_bytes {
            Some(limit_bytes) if spec.bytes > limit_bytes.saturating_sub(place.used_bytes) => {
                let used_bytes = place.used_bytes;
                let detail = format!("the device gives {limit_bytes} bytes in all, of which {used_bytes} are taken");
                refused(ErrorKind::OutOfMemory, detail)
            }
            _ => Ok(()),
        }
    }

    fn admit_descriptor(&self, verb: Verb) -> Result<()> {
        let limit = self.descriptor_limit;
        if self.descriptors() < limit {
            return Ok(());
        }
        let detail = format!("exportable memory holds all {limit} descriptors it may; use fewer, larger handles");
        Err(Error::new(verb, ErrorKind::OutOfResources, detail))
    }

    pub(super) fn import(&mut self, places: &mut Places, shareable: &Shareable, spec: HandleSpec) -> Result<RawHandle> {
        let index = places.index(Verb::Import, spec.device)?;
        let refused = |detail: String| Err(Error::new(Verb::Import, ErrorKind::InvalidValue, detail).of(spec.bytes));
        if spec.kind != shareable.kind() {
            return refused(format!("what is imported is of kind {:?}, not {:?}", shareable.kind(), spec.kind));
        }
        let opened;
        let descriptor = match shareable {
            Shareable::Descriptor(descriptor) => descriptor.as_fd(),
            Shareable::Fabric(name) => {
                opened = fabric::open(name)?;
                opened.as_fd()
            }
        };
        let size_bytes = rustix::fs::fstat(descriptor).map_err(|error| system(Verb::Import, error))?.st_size as u64;
        if size_bytes != spec.bytes || !is_exportable(descriptor) {
            return refused(format!("the descriptor is no exported handle of that size: it has {size_bytes} bytes"));
        }
        let id = file_id(Verb::Import, descriptor)?;
        if let Some(&memory) = self.files.get(&id) {
            let known = self.memory(memory).spec;
            if known != spec {
                return refused(format!("the descriptor was exported as {known:?}"));
            }
            self.hold(memory);
            return Ok(self.name(spec, memory));
        }
        self.admit_descriptor(Verb::Import)?;
        let file = descriptor.try_clone_to_owned().map_err(|error| {
            Error::new(Verb::Import, ErrorKind::OutOfResources, format!("the descriptor cannot be kept: {error}"))
        })?;
        places.at_mut(index).imported_bytes += spec.bytes;
        Ok(self.insert(spec, index, Source::File { file, id, counted: false }))
    }

    fn insert(&mut self, spec: HandleSpec, place: usize, source: Source) -> RawHandle {
        let memory = MemoryId(self.next);
        if let Source::File { id, .. } = source {
            self.files.insert(id, memory);
        }
        self.memories.insert(memory, Memory { spec, place, source, users: 1 });
        self.name(spec, memory)
    }

    fn name(&mut self, spec: HandleSpec, memory: MemoryId) -> RawHandle {
        let value = self.next;
        self.next += 1;
        self.handles.insert(value, Handle { spec, memory });
        RawHandle(value)
    }

    pub(super) fn get(&self, verb: Verb, handle: RawHandle) -> Result<Handle> {
        self.handles.get(&handle.0).copied().ok_or_else(|| unknown(verb, handle))
    }

    pub(super) fn export(&self, handle: RawHandle, kind: HandleKind) -> Result<Shareable> {
        let Handle { spec, memory } = self.get(Verb::Export, handle)?;
        let (Source::File { file, .. }, true) = (&self.memory(memory).source, kind == spec.kind) else {
            let detail = format!("the handle was created as {:?}; it leaves the process only as what it is", spec.kind);
            return Err(Error::new(Verb::Export, ErrorKind::InvalidValue, detail).on(spec.device).of(spec.bytes));
        };
        if kind == HandleKind::Fabric {
            return fabric::name_of(file.as_fd()).map(Shareable::Fabric);
        }
        let copy = file.try_clone().map_err(|error| {
            Error::new(Verb::Export, ErrorKind::OutOfResources, format!("no descriptor for the export: {error}"))
        })?;
        Ok(Shareable::Descriptor(copy))
    }

    /// Forgets the handle and one use of its memory.
    pub(super) fn release(&mut self, places: &mut Places, handle: RawHandle) -> Result<()> {
        let gone = self.handles.remove(&handle.0).ok_or_else(|| unknown(Verb::Release, handle))?;
        self.let_go(places, gone.memory);
        Ok(())
    }

    /// One more names the memory.
    pub(super) fn hold(&mut self, memory: MemoryId) {
        self.memories.get_mut(&memory).expect(NAMED).users += 1;
    }

    /// One less names the memory; the last one gives it back to its place.
    pub(super) fn let_go(&mut self, places: &mut Places, memory: MemoryId) {
        let left = self.memories.get_mut(&memory).expect(NAMED);
        left.users -= 1;
        if left.users > 0 {
            return;
        }
        let gone = self.memories.remove(&memory).expect(NAMED);
        let place = places.at_mut(gone.place);
        let counted = match gone.source {
            Source::Run { offset } => {
                place.store.punch(offset, gone.spec.bytes);
                true
            }
            Source::File { id, counted, .. } => {
                self.files.remove(&id);
                counted
            }
        };
        let held_bytes = if counted { &mut place.used_bytes } else { &mut place.imported_bytes };
        *held_bytes -= gone.spec.bytes;
    }

    /// The file that holds the memory, and where in it the memory begins.
    pub(super) fn bytes_of<'a>(&'a self, places: &'a Places, memory: MemoryId) -> (BorrowedFd<'a>, u64) {
        let memory = self.memory(memory);
        match &memory.source {
            Source::Run { offset } => (places.at(memory.place).store.file(), *offset),
            Source::File { file, .. } => (file.as_fd(), 0),
        }
    }

    /// Where the memory lies, by index and name.
    pub(super) fn place_of(&self, memory: MemoryId) -> (usize, DeviceId) {
        let memory = self.memory(memory);
        (memory.place, memory.spec.device)
    }

    /// Whether anybody still names the memory.
    pub(super) fn lives(&self, memory: MemoryId) -> bool {
        self.memories.contains_key(&memory)
    }

    /// How many memories somebody names.
    pub(super) fn memories(&self) -> usize {
        self.memories.len()
    }

    pub(super) fn handles(&self) -> u64 {
        self.handles.len() as u64
    }

    pub(super) fn descriptors(&self) -> u64 {
        self.files.len() as u64
    }

    fn memory(&self, memory: MemoryId) -> &Memory {
        self.memories.get(&memory).expect(NAMED)
    }
}

/// Holders of a `MemoryId` are counted in `Memory::users`.
const NAMED: &str = "memory lives while a handle or a mapping names it";

fn file_id(verb: Verb, file: BorrowedFd<'_>) -> Result<FileId> {
    let stat = rustix::fs::fstat(file).map_err(|error| system(verb, error))?;
    Ok((stat.st_dev, stat.st_ino))
}

fn unknown(verb: Verb, handle: RawHandle) -> Error {
    let detail = format!("handle {} does not live: it was released, or never created here", handle.0);
    Error::new(verb, ErrorKind::InvalidValue, detail)
}

fn system(verb: Verb, error: rustix::io::Errno) -> Error {
    Error::new(verb, ErrorKind::OutOfResources, format!("the system gave no file: {error}"))
}
