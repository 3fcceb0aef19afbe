//! A device as `info` tells of it: what it is, what is free, which kinds of handles it really grants.

use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;
use stitchpool_chunks::{Origin, PhysicalHandle};
use stitchpool_driver::cuda::CudaDriver;
use stitchpool_driver::{DeviceInfo, ErrorKind, HandleKind, HandleSpec};

/// A device.
#[derive(Debug, Serialize)]
pub struct Device {
    /// The driver's ordinal.
    pub ordinal: u16,
    /// The identity that holds across processes.
    pub uuid: String,
    /// The product.
    pub name: String,
    /// All of its memory.
    pub total_bytes: u64,
    /// What nobody has taken.
    pub free_bytes: u64,
    /// The rest: other processes, contexts (this program's too), the driver itself. The driver does not
    /// tell them apart.
    pub taken_bytes: u64,
    /// What it grants, by kind of handle.
    pub kinds: Vec<Kind>,
    /// What the driver says of it beyond that, where it is CUDA's.
    pub advertised: Option<Advertised>,
}

/// A kind of handle on a device.
#[derive(Debug, Serialize)]
pub struct Kind {
    /// `private`, `file descriptor` or `fabric`.
    pub kind: &'static str,
    /// The unit of sizes and places, where the driver names one.
    pub granularity_bytes: Option<u64>,
    /// Whether one could be created just now.
    pub is_granted: bool,
    /// Why not.
    pub refusal: Option<String>,
}

/// What CUDA's driver says of a device. Not all that it advertises is granted.
#[derive(Debug, Serialize)]
pub struct Advertised {
    /// Compute capability: major, minor.
    pub capability: (u32, u32),
    /// Whether this process has a context on it.
    pub has_context: bool,
    /// The granularity that it recommends.
    pub recommended_granularity_bytes: u64,
    /// What it says that it supports.
    pub supports: Vec<&'static str>,
}

const KINDS: [(HandleKind, &str); 3] =
    [(HandleKind::Private, "private"), (HandleKind::FileDescriptor, "file descriptor"), (HandleKind::Fabric, "fabric")];

impl Device {
    /// Asks the driver, and creates a handle of each kind.
    pub fn ask(origin: &Arc<Origin>, info: &DeviceInfo, cuda: Option<&CudaDriver>) -> Result<Self> {
        let memory = origin.driver().memory(info.id)?;
        Ok(Self {
            ordinal: info.id.0,
            uuid: dashed(info.uuid.0),
            name: info.name.clone(),
            total_bytes: info.total_bytes,
            free_bytes: memory.free_bytes,
            taken_bytes: memory.total_bytes.saturating_sub(memory.free_bytes),
            kinds: KINDS.iter().map(|&(kind, word)| Kind::ask(origin, info, kind, word)).collect(),
            advertised: cuda.map(|cuda| Advertised::ask(cuda, info)).transpose()?,
        })
    }
}

impl Kind {
    /// Creates one and gives it back: what a device says that it supports it does not always grant.
    fn ask(origin: &Arc<Origin>, info: &DeviceInfo, kind: HandleKind, word: &'static str) -> Self {
        let granularity = origin.driver().granularity(info.id, kind);
        let granularity_bytes = granularity.as_ref().ok().copied();
        let created =
            granularity.and_then(|bytes| PhysicalHandle::create(origin, HandleSpec { device: info.id, bytes, kind }));
        let refusal = created.err().map(|error| match error.kind {
            ErrorKind::NotPermitted | ErrorKind::NotSupported => error.kind.to_string(),
            _ => error.to_string(),
        });
        Self { kind: word, granularity_bytes, is_granted: refusal.is_none(), refusal }
    }
}

impl Advertised {
    fn ask(cuda: &CudaDriver, info: &DeviceInfo) -> Result<Self> {
        let facts = cuda.device_facts(info.id)?;
        let words = [
            (facts.advertises_vmm, "virtual memory"),
            (facts.advertises_descriptors, "file descriptors"),
            (facts.advertises_fabric, "fabric handles"),
            (facts.advertises_rdma, "RDMA"),
            (facts.advertises_dma_buffers, "DMA buffers"),
            (facts.advertises_host_memory, "host memory"),
        ];
        Ok(Self {
            capability: facts.capability,
            has_context: facts.has_context,
            recommended_granularity_bytes: facts.recommended_granularity_bytes,
            supports: words.into_iter().filter_map(|(is, word)| is.then_some(word)).collect(),
        })
    }
}

/// A UUID as it is usually written.
fn dashed(bytes: [u8; 16]) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
