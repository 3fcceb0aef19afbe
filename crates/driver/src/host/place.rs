//! The places where memory can lie, what each has given out, and how they reach each other.

use super::config::{HostConfig, HostDevice, Peers};
use super::store::Store;
use crate::{DeviceId, DeviceInfo, DeviceMemory, Error, ErrorKind, Link, Result, Uuid, Verb};

/// One device, or host memory.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) device: DeviceId,
    identity: u16,
    pub(super) shape: HostDevice,
    /// Memory of handles that live or are mapped.
    pub(super) used_bytes: u64,
    /// Memory of others that handles of this process name: it counts where it was created.
    pub(super) imported_bytes: u64,
    /// Memory that other processes hold.
    pub(super) outside_bytes: u64,
    pub(super) store: Store,
}

/// All places: the devices by ordinal, then the host.
#[derive(Debug)]
pub(super) struct Places {
    all: Vec<Place>,
    links: Vec<Vec<Link>>,
}

/// Rights are a bit a place in one word.
const DEVICES_MAX: usize = 63;

impl Place {
    fn open(device: DeviceId, identity: u16, shape: HostDevice) -> Result<Self> {
        let granularity_bytes = shape.granularity_bytes;
        if !granularity_bytes.is_power_of_two() || granularity_bytes < rustix::param::page_size() as u64 {
            return Err(refused(format!(
                "a granularity of {granularity_bytes} bytes is no power of two from {} bytes up",
                rustix::param::page_size()
            ))
            .on(device));
        }
        let store = Store::open().map_err(|error| {
            Error::new(Verb::Open, ErrorKind::OutOfResources, format!("no file for the memory: {error}")).on(device)
        })?;
        Ok(Self { device, identity, shape, used_bytes: 0, imported_bytes: 0, outside_bytes: 0, store })
    }

    pub(super) fn memory(&self) -> DeviceMemory {
        let total_bytes = self.shape.capacity_bytes;
        DeviceMemory { free_bytes: total_bytes - self.used_bytes - self.outside_bytes, total_bytes }
    }

    fn info(&self) -> DeviceInfo {
        let mut uuid = *b"stitchpool.host\0";
        uuid[14..].copy_from_slice(&self.identity.to_be_bytes());
        DeviceInfo {
            id: self.device,
            uuid: Uuid(uuid),
            name: format!("host {}", self.device),
            total_bytes: self.shape.capacity_bytes,
        }
    }
}

impl Places {
    pub(super) fn open(config: &HostConfig) -> Result<Self> {
        if config.devices.len() > DEVICES_MAX {
            return Err(refused(format!("{} devices are more than {DEVICES_MAX}", config.devices.len())));
        }
        let identity = |device: DeviceId| config.identities.get(usize::from(device.0)).copied().unwrap_or(device.0);
        let shapes = config.devices.iter().zip(0..).map(|(shape, ordinal)| (DeviceId(ordinal), *shape));
        let all = shapes.chain([(DeviceId::HOST, config.host_memory)]);
        let all = all.map(|(device, shape)| Place::open(device, identity(device), shape)).collect::<Result<_>>()?;
        Ok(Self { all, links: links(&config.peers, config.devices.len())? })
    }

    /// The place's index: its bit in the rights of a mapping.
    pub(super) fn index(&self, verb: Verb, device: DeviceId) -> Result<usize> {
        let host = self.all.len() - 1;
        match usize::from(device.0) {
            _ if device.is_host() => Ok(host),
            index if index < host => Ok(index),
            _ => Err(Error::new(verb, ErrorKind::InvalidDevice, format!("there are {host} devices")).on(device)),
        }
    }

    pub(super) fn get(&self, verb: Verb, device: DeviceId) -> Result<&Place> {
        Ok(&self.all[self.index(verb, device)?])
    }

    pub(super) fn get_mut(&mut self, verb: Verb, device: DeviceId) -> Result<&mut Place> {
        let index = self.index(verb, device)?;
        Ok(&mut self.all[index])
    }

    /// A place by the index that [`Places::index`] gave.
    pub(super) fn at(&self, index: usize) -> &Place {
        &self.all[index]
    }

    pub(super) fn at_mut(&mut self, index: usize) -> &mut Place {
        &mut self.all[index]
    }

    pub(super) fn all(&self) -> &[Place] {
        &self.all
    }

    pub(super) fn infos(&self) -> Vec<DeviceInfo> {
        self.all[..self.all.len() - 1].iter().map(Place::info).collect()
    }

    /// How the place with index `from` reaches the memory of the one with index `to`.
    pub(super) fn link(&self, from: usize, to: usize) -> Link {
        let host = self.all.len() - 1;
        match (from, to) {
            _ if from == to => Link::Own,
            _ if to == host => Link::Bus,
            _ if from == host => Link::None,
            _ => self.links[from][to],
        }
    }

    /// The unit of reservations: what suits the place with the smallest granules.
    pub(super) fn smallest_granularity_bytes(&self) -> u64 {
        let all = self.all.iter().map(|place| place.shape.granularity_bytes);
        all.min().unwrap_or_else(|| rustix::param::page_size() as u64)
    }
}

fn links(peers: &Peers, count: usize) -> Result<Vec<Vec<Link>>> {
    let all = |link: Link| vec![vec![link; count]; count];
    match peers {
        Peers::All => Ok(all(Link::Direct)),
        Peers::None => Ok(all(Link::None)),
        Peers::Groups(groups) => {
            let mut links = all(Link::None);
            for group in groups {
                if let Some(stranger) = group.iter().find(|&&ordinal| usize::from(ordinal) >= count) {
                    return Err(refused(format!("a peer group names device {stranger} of {count}")));
                }
                for (&from, &to) in group.iter().flat_map(|from| group.iter().map(move |to| (from, to))) {
                    links[usize::from(from)][usize::from(to)] = Link::Direct;
                }
            }
            Ok(links)
        }
        Peers::Matrix(rows) if rows.len() == count && rows.iter().all(|row| row.len() == count) => Ok(rows.clone()),
        Peers::Matrix(rows) => Err(refused(format!("a peer matrix of {} rows for {count} devices", rows.len()))),
    }
}

fn refused(detail: String) -> Error {
    Error::new(Verb::Open, ErrorKind::InvalidValue, detail)
}
