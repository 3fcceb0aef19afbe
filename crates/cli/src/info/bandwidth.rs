//! How fast kernels of device 0 read and write its own memory, its peers' and the host's, in one handle
//! and stitched from many.

use super::spread::Spread;
use crate::bytes::show;
use crate::patch::{Patch, Strand};
use crate::session::Session;
use anyhow::Result;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use stitchpool_chunks::{Origin, PhysicalHandle};
use stitchpool_driver::{DeviceId, DeviceInfo, HandleKind, HandleSpec, Link};

/// Bandwidth of one kind of memory, in 10^9 bytes a second.
#[derive(Debug, Serialize)]
pub struct Bandwidth {
    /// Who uses whose memory.
    pub path: String,
    /// Whether that memory is a peer's.
    pub is_peer: bool,
    /// `one handle`, or `stitched` with the handles' size.
    pub made_of: String,
    /// How much of it is used at a time.
    pub bytes: u64,
    /// A kernel writes it.
    pub write_gbps: f64,
    /// A kernel reads and compares it.
    pub read_gbps: f64,
    /// How far samples of the latter lie apart.
    pub read_noise_gbps: f64,
    /// It is copied to device 0's own memory.
    pub copy_gbps: f64,
    /// What reading gave on an H200: 4,513 of its own memory, 376 of a peer's, 51 of the host's.
    pub h200_read_gbps: f64,
}

const MIB: u64 = 1 << 20;
/// Far beyond any cache, and soon done.
const CARD_BYTES: u64 = 512 * MIB;
/// On the host driver each byte is one of this machine's.
const HOST_DRIVER_BYTES: u64 = 32 * MIB;
const STITCHED_HANDLE_BYTES: u64 = 2 * MIB;
const ROUNDS: usize = 5;
const SEED: u64 = 0xba4d;
/// What reading gave on an H200: of its own memory, of another's over NVLink, of the host's.
const H200_OWN_GBPS: f64 = 4513.0;
const H200_PEER_GBPS: f64 = 376.0;
const H200_HOST_GBPS: f64 = 50.8;
/// Coprime to any power of two: deals handles in an order that no hardware likes.
const SHUFFLE: u64 = 77;

/// One place for memory under measurement.
struct Course<'a> {
    session: &'a Session,
    origin: Arc<Origin>,
    /// Whose kernels run.
    user: DeviceId,
    /// Where the memory lies.
    place: DeviceId,
    bytes: u64,
    /// Kernels in one sample.
    times: u32,
}

/// All kinds of memory that device 0 reaches. Places without room are left out.
pub fn all(session: &Session, devices: &[DeviceInfo]) -> Result<Vec<Bandwidth>> {
    let Some(user) = devices.first().map(|device| device.id) else { return Ok(Vec::new()) };
    let origin = Origin::new(session.driver.clone());
    let whole_bytes = if session.host.is_some() { HOST_DRIVER_BYTES } else { CARD_BYTES };
    let mut rows = Vec::new();
    for place in devices.iter().map(|device| device.id).chain([DeviceId::HOST]) {
        let link = session.driver.link(user, place)?;
        let granule_bytes = session.driver.granularity(place, HandleKind::Private)?;
        // The copies' target lies on the user.
        let room_bytes = session.driver.memory(place)?.free_bytes.min(session.driver.memory(user)?.free_bytes) / 4;
        let bytes = whole_bytes.min(room_bytes) / granule_bytes * granule_bytes;
        if link == Link::None || bytes == 0 {
            continue;
        }
        let times = if link == Link::Own { 16 } else { 4 };
        let course = Course { session, origin: origin.clone(), user, place, bytes, times };
        let h200_read_gbps = match link {
            Link::Own => H200_OWN_GBPS,
            _ if place.is_host() => H200_HOST_GBPS,
            _ => H200_PEER_GBPS,
        };
        for handle_bytes in [bytes, STITCHED_HANDLE_BYTES.next_multiple_of(granule_bytes)] {
            rows.push(Bandwidth { h200_read_gbps, ..course.run(handle_bytes)? });
        }
    }
    Ok(rows)
}

impl Course<'_> {
    fn run(&self, handle_bytes: u64) -> Result<Bandwidth> {
        let patch = self.patch(self.place, handle_bytes)?;
        let target = self.patch(self.user, self.bytes)?;
        let strand = Strand::open(self.session, self.user)?;
        // Kernels are loaded and memory is touched before anything is timed.
        strand.fill(&target, SEED, 1)?;
        strand.fill(&patch, SEED, 1)?;
        strand.verify(&patch, SEED, 1)?;
        let write = self.samples(|| strand.fill(&patch, SEED, self.times))?;
        let read = self.samples(|| strand.verify(&patch, SEED, self.times))?;
        let copy = self.samples(|| strand.copy(&target, &patch, self.times))?;
        let is_own = self.place == self.user;
        Ok(Bandwidth {
            path: match is_own {
                true => format!("{}, its own memory", self.user),
                false if self.place.is_host() => format!("{}, memory of the host", self.user),
                false => format!("{}, memory of {}", self.user, self.place),
            },
            is_peer: !is_own && !self.place.is_host(),
            made_of: match handle_bytes == self.bytes {
                true => "one handle".to_owned(),
                false => format!("stitched, {}", show(handle_bytes)),
            },
            bytes: self.bytes,
            write_gbps: write.median,
            read_gbps: read.median,
            read_noise_gbps: read.noise,
            copy_gbps: copy.median,
            h200_read_gbps: 0.0,
        })
    }

    /// All of the course's bytes in handles of one size (the last may be smaller), in shuffled order.
    fn patch(&self, place: DeviceId, handle_bytes: u64) -> Result<Patch> {
        let count = self.bytes.div_ceil(handle_bytes);
        let sizes = (0..count).map(|index| handle_bytes.min(self.bytes - index * handle_bytes));
        let create = |bytes| {
            PhysicalHandle::create(&self.origin, HandleSpec { device: place, bytes, kind: HandleKind::Private })
        };
        let mut handles = sizes.map(create).collect::<stitchpool_driver::Result<Vec<_>>>()?;
        for index in 0..count {
            handles.swap(index as usize, (index * SHUFFLE % count) as usize);
        }
        Ok(Patch::of(&self.origin, handles, &[self.user])?)
    }

    fn samples(&self, run: impl Fn() -> stitchpool_driver::Result<Duration>) -> Result<Spread> {
        let moved = (self.bytes * u64::from(self.times)) as f64;
        let gbps = |time: Duration| moved / 1e9 / time.as_secs_f64().max(1e-9);
        let samples = (0..ROUNDS).map(|_| run().map(gbps)).collect::<stitchpool_driver::Result<_>>()?;
        Ok(Spread::of(samples))
    }
}

impl Bandwidth {
    /// Its reading, to be set against the H200's.
    pub const fn read(&self) -> Spread {
        Spread { median: self.read_gbps, noise: self.read_noise_gbps }
    }
}
