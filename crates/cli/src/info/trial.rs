//! Tries each thing that a pool may need of a driver on real memory, and gives all of it back. What a
//! driver advertises is not believed: a handle is created, work is queued, bytes are compared.

use super::feature::{Feature, Outcome};
use crate::bytes::show;
use crate::patch::{Patch, Strand, pass_round};
use crate::session::Session;
use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::time::Duration;
use stitchpool_chunks::{Event, Origin, PhysicalHandle};
use stitchpool_driver::{
    Capture, DeviceId, DeviceInfo, ErrorKind, Grant, HandleKind, HandleSpec, Link, Rights, Tally, Verb,
};

/// So many handles make a stitched range here.
const HANDLES: usize = 4;
/// The pattern that is written and compared.
const SEED: u64 = 0x5717_c4ed;
const WAIT_MAX: Duration = Duration::from_secs(10);
/// So often, and with such pauses, it is looked whether memory came back.
const LOOKS_MAX: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// One driver under trial.
pub struct Trial<'a> {
    pub session: &'a Session,
    pub origin: Arc<Origin>,
    pub devices: &'a [DeviceInfo],
}

impl Trial<'_> {
    /// Every feature's verdict. Nothing here can end the program: what fails is a verdict.
    pub fn all(&self) -> Vec<Feature> {
        let vmm = "update the driver, or use the host driver";
        let each = |feature, remedy, tried: fn(&Self, DeviceId) -> Result<String>| {
            let outcomes: Vec<Outcome> = self
                .devices
                .iter()
                .map(|device| Outcome { on: device.id.to_string(), seen: tried(self, device.id) })
                .collect();
            Feature::judged(feature, &outcomes, remedy)
        };
        vec![
            each("virtual memory", vmm, Self::virtual_memory),
            each("whole granules", "round sizes up to the granularity, as the pool does", Self::whole_granules),
            each("stitching", vmm, Self::stitching),
            each("aliases", "handles cannot move without waiting: tell us of this driver", Self::aliases),
            each("memory behind a standing address", vmm, Self::replacing),
            each("read-only rights", "open memory for reading and writing instead", Self::read_only),
            each("memory back after release", "end the processes that still map it", Self::comes_back),
            self.peers(),
            each("host memory", "spill to a peer, or keep data in pinned memory of your own", Self::host_memory),
            each(
                "file descriptors",
                "raise the limit of open files (ulimit -n), or keep handles private",
                Self::descriptors,
            ),
            each(
                "fabric handles",
                "needs the IMEX service and a channel; within one machine file descriptors do",
                Self::fabric,
            ),
            self.rdma(),
            each("events", vmm, Self::events),
            each("stream numbers", "tell the pool before a stream is destroyed", Self::stream_numbers),
            each("capture query", "name captured streams to the pool yourself", Self::capture_query),
        ]
    }

    fn create(&self, device: DeviceId, kind: HandleKind) -> stitchpool_driver::Result<Arc<PhysicalHandle>> {
        let bytes = self.origin.driver().granularity(device, kind)?;
        PhysicalHandle::create(&self.origin, HandleSpec { device, bytes, kind })
    }

    fn handles(&self, device: DeviceId) -> stitchpool_driver::Result<Vec<Arc<PhysicalHandle>>> {
        (0..HANDLES).map(|_| self.create(device, HandleKind::Private)).collect()
    }

    /// Writes both ends of each handle on one stream, reads them on another that comes after it, and demands the same
    /// bytes.
    fn write_and_read(&self, writer: DeviceId, write: &Patch, reader: DeviceId, read: &Patch) -> Result<()> {
        let before = self.session.kernels.tally()?;
        Strand::open(self.session, writer)?.fill_ends(write, SEED)?;
        let read_bytes = Strand::open(self.session, reader)?.verify_ends(read, SEED)?;
        let Tally { checked_bytes, wrong_bytes, faults } = self.session.kernels.tally()?;
        let faults = faults.get(before.faults.len()..).unwrap_or_default();
        ensure!(faults.is_empty(), "{}", faults.join("; "));
        let wrong_bytes = wrong_bytes - before.wrong_bytes;
        ensure!(wrong_bytes == 0, "{wrong_bytes} bytes of {read_bytes} came back wrong");
        let checked_bytes = checked_bytes - before.checked_bytes;
        ensure!(checked_bytes == read_bytes, "only {checked_bytes} bytes of {read_bytes} were read");
        Ok(())
    }

    fn virtual_memory(&self, device: DeviceId) -> Result<String> {
        let patch = Patch::of(&self.origin, vec![self.create(device, HandleKind::Private)?], &[device])?;
        self.write_and_read(device, &patch, device, &patch)?;
        Ok(format!("reserved, created, mapped and opened {}, wrote and read both ends", show(patch.bytes())))
    }

    fn whole_granules(&self, device: DeviceId) -> Result<String> {
        let granule_bytes = self.origin.driver().granularity(device, HandleKind::Private)?;
        let spec = HandleSpec { device, bytes: granule_bytes + 1, kind: HandleKind::Private };
        match PhysicalHandle::create(&self.origin, spec) {
            Ok(_) => bail!("a handle of {} bytes was granted, which is no whole granule", spec.bytes),
            Err(error) if error.kind == ErrorKind::InvalidValue => {
                Ok(format!("sizes are whole granules of {}; one byte more is refused", show(granule_bytes)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn stitching(&self, device: DeviceId) -> Result<String> {
        let mut handles = self.handles(device)?;
        handles.rotate_left(1);
        handles.swap(0, HANDLES / 2);
        let patch = Patch::of(&self.origin, handles, &[device])?;
        self.write_and_read(device, &patch, device, &patch)?;
        Ok(format!("{HANDLES} handles in shuffled order were one buffer"))
    }

    fn aliases(&self, device: DeviceId) -> Result<String> {
        let handles = self.handles(device)?;
        let first = Patch::of(&self.origin, handles.clone(), &[device])?;
        let second = Patch::of(&self.origin, handles, &[device])?;
        self.write_and_read(device, &first, device, &second)?;
        Ok("the same handles at two addresses: written by one, read by the other".to_owned())
    }

    fn replacing(&self, device: DeviceId) -> Result<String> {
        let mut patch = Patch::of(&self.origin, self.handles(device)?, &[device])?;
        self.write_and_read(device, &patch, device, &patch)?;
        drop(patch.replace(self.handles(device)?)?);
        self.write_and_read(device, &patch, device, &patch)?;
        Ok("other handles took their place under the same address".to_owned())
    }

    /// A kernel that writes without the right would cost the context, so that is not tried.
    fn read_only(&self, device: DeviceId) -> Result<String> {
        let mut patch = Patch::of(&self.origin, self.handles(device)?, &[device])?;
        let strand = Strand::open(self.session, device)?;
        strand.fill_ends(&patch, SEED)?;
        patch.open(Grant { device, rights: Rights::Read })?;
        strand.verify_ends(&patch, SEED)?;
        Ok("rights were lowered to reading, and it could be read".to_owned())
    }

    fn comes_back(&self, device: DeviceId) -> Result<String> {
        let driver = self.origin.driver();
        // What the first use of a device costs is not what a handle costs.
        drop(Strand::open(self.session, device)?);
        let before_bytes = driver.memory(device)?.free_bytes;
        let patch = Patch::of(&self.origin, self.handles(device)?, &[device])?;
        let held_bytes = before_bytes.saturating_sub(driver.memory(device)?.free_bytes);
        let bytes = patch.bytes();
        drop(patch);
        let mut missing_bytes = before_bytes.saturating_sub(driver.memory(device)?.free_bytes);
        for _ in 0..LOOKS_MAX {
            if missing_bytes < bytes {
                break;
            }
            // The driver may be late to show it, and another process may have taken as much meanwhile.
            std::thread::sleep(LOOK_PAUSE);
            missing_bytes = before_bytes.saturating_sub(driver.memory(device)?.free_bytes);
        }
        ensure!(missing_bytes < bytes, "{} of {} were not free again", show(missing_bytes), show(bytes));
        Ok(format!("{} showed as taken, and as free again", show(held_bytes)))
    }

    fn peers(&self) -> Feature {
        let pairs = self.devices.iter().flat_map(|from| self.devices.iter().map(move |to| (from.id, to.id)));
        let outcomes: Vec<Outcome> = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| Outcome { on: format!("{from} on memory of {to}"), seen: self.peer(from, to) })
            .collect();
        if outcomes.is_empty() {
            return Feature::not_probed("peers", "there is one device only");
        }
        Feature::judged("peers", &outcomes, "keep blocks on devices that reach each other, or copy through the host")
    }

    fn peer(&self, from: DeviceId, to: DeviceId) -> Result<String> {
        let link = self.origin.driver().link(from, to)?;
        if link == Link::None {
            return Err(stitchpool_chunks::Error::Unreachable { reader: from, owner: to }.into());
        }
        let patch = Patch::of(&self.origin, self.handles(to)?, &[from, to])?;
        self.write_and_read(from, &patch, to, &patch).context("written by the peer, read by the owner")?;
        self.write_and_read(to, &patch, from, &patch).context("written by the owner, read by the peer")?;
        Ok("each wrote what the other read, in one range".to_owned())
    }

    fn host_memory(&self, device: DeviceId) -> Result<String> {
        let patch = Patch::of(&self.origin, self.handles(DeviceId::HOST)?, &[device])?;
        self.write_and_read(device, &patch, device, &patch)?;
        Ok("memory of the host was mapped, written and read like the device's own".to_owned())
    }

    fn descriptors(&self, device: DeviceId) -> Result<String> {
        pass_round(&self.origin, device)?;
        Ok("a handle was exported as a file descriptor and imported again".to_owned())
    }

    fn fabric(&self, device: DeviceId) -> Result<String> {
        drop(self.create(device, HandleKind::Fabric)?);
        Ok("a fabric handle was created".to_owned())
    }

    /// The seam has no verb for it, so only CUDA is asked.
    fn rdma(&self) -> Feature {
        let Some(cuda) = &self.session.cuda else {
            return Feature::not_probed("RDMA flag", "the host driver has no other devices on a bus");
        };
        let outcomes: Vec<Outcome> = self
            .devices
            .iter()
            .map(|device| {
                let seen = cuda.probe_rdma(device.id).map(|()| "a handle with the flag was created".to_owned());
                Outcome { on: device.id.to_string(), seen: seen.map_err(anyhow::Error::from) }
            })
            .collect();
        Feature::judged("RDMA flag", &outcomes, "network cards cannot read this memory: stage in host memory")
    }

    fn events(&self, device: DeviceId) -> Result<String> {
        let strand = Strand::open(self.session, device)?;
        let event = Event::record(&self.origin, strand.raw())?;
        event.hold_back(strand.raw())?;
        event.finish(WAIT_MAX)?;
        ensure!(event.is_done()?, "an event that was waited for is not done");
        Ok("an event was recorded, waited for by a stream and by the CPU".to_owned())
    }

    fn stream_numbers(&self, device: DeviceId) -> Result<String> {
        let (first, second) = (Strand::open(self.session, device)?, Strand::open(self.session, device)?);
        let numbers = [first.identity()?, second.identity()?];
        ensure!(numbers[0] != numbers[1], "two streams have the number {}", numbers[0]);
        let old = numbers[1];
        drop(second);
        let third = Strand::open(self.session, device)?.identity()?;
        ensure!(third != old, "a new stream has the number {old} of one that was destroyed");
        Ok("each stream has a number that no other had".to_owned())
    }

    fn capture_query(&self, device: DeviceId) -> Result<String> {
        match Strand::open(self.session, device)?.capture()? {
            Capture::None => Ok("a stream that nobody captures says so".to_owned()),
            other => bail!("{}: a new stream is said to be captured: {other:?}", Verb::CaptureOf),
        }
    }
}
