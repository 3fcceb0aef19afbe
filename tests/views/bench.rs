//! Devices of which the last reaches no other, a pool on them, and a look at who may really do what.

use crate::rig::{GRANULE, Stream};
use std::sync::Arc;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver, Peers, StreamMode};
use stitchpool::driver::{Address, DeviceId, Driver, Faulty, Grant, Kernels, Rights};
use stitchpool::{Pool, Settings};

pub const DEVICES: u16 = 4;
/// Reaches nobody but itself.
pub const LONER: DeviceId = DeviceId(3);

pub struct Bench {
    pub host: Arc<HostDriver>,
    pub faulty: Arc<Faulty>,
    pub pool: Pool,
}

impl Bench {
    /// Devices of so many granules each; every handle is a granule. Streams are moved by hand.
    pub fn new(granules: u64) -> Self {
        let device = HostDevice { capacity_bytes: granules * GRANULE, granularity_bytes: GRANULE };
        let config = HostConfig {
            devices: vec![device; usize::from(DEVICES)],
            peers: Peers::Groups(vec![vec![0, 1, 2], vec![3]]),
            streams: StreamMode::ByHand,
            watch_order: true,
            ..HostConfig::default()
        };
        let host = HostDriver::new(config).unwrap();
        let faulty = Faulty::new(host.clone());
        let settings = Settings { handle_bytes_max: GRANULE, ..Settings::default() };
        let pool = Pool::new(faulty.clone(), settings).unwrap();
        Self { host, faulty, pool }
    }

    pub fn stream(&self, device: u16) -> Stream {
        let raw = self.host.create_stream(DeviceId(device)).unwrap();
        Stream { raw, id: self.pool.register(raw).unwrap() }
    }

    /// What a device may do at an address, found by trying; no queued work may name it.
    pub fn may(&self, device: DeviceId, at: Address) -> Rights {
        let mut byte = [0];
        // SAFETY: the host driver refuses what is not mapped, not open, or named by queued work.
        unsafe {
            match self.host.read(device, at, &mut byte) {
                Err(_) => Rights::None,
                Ok(()) if self.host.write(device, at, &byte).is_err() => Rights::Read,
                Ok(()) => Rights::ReadWrite,
            }
        }
    }

    /// What all devices may do at every granule of a range.
    pub fn rights(&self, at: Address, bytes: u64) -> Vec<[Rights; DEVICES as usize]> {
        let granules = (0..bytes).step_by(GRANULE as usize);
        let everybody = |at| std::array::from_fn(|device| self.may(DeviceId(device as u16), at));
        granules.map(|offset| everybody(at + offset)).collect()
    }

    pub fn assert_unhurt(&self) {
        self.pool.check().unwrap();
        let tally = self.host.tally().unwrap();
        assert_eq!((tally.faults, tally.wrong_bytes), (Vec::new(), 0));
    }
}

pub fn grant(device: u16, rights: Rights) -> Grant {
    Grant { device: DeviceId(device), rights }
}
