//! An exporter's side and importers' sides on a workbench, each with a strict driver of its own.

use std::sync::Arc;
use std::time::Duration;
use stitchpool_driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool_driver::{Address, DeviceId, Driver, Faulty, Grant, HandleKind, RawStream, Rights};
use stitchpool_pool::{Block, Part, Pool, Request, Settings, StreamId};
use stitchpool_share::{Exporter, Import, Importer, Ticket};

pub(crate) const GRANULE: u64 = 64 << 10;
pub(crate) const FIRST: DeviceId = DeviceId(0);
pub(crate) const READ: [Grant; 1] = [Grant { device: FIRST, rights: Rights::Read }];
pub(crate) const WRITE: [Grant; 1] = [Grant { device: FIRST, rights: Rights::ReadWrite }];
/// How long a test waits for what takes milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// One process: a driver that can be made to fail.
pub(crate) struct Side {
    pub(crate) host: Arc<HostDriver>,
    pub(crate) faulty: Arc<Faulty>,
}

/// A process with a pool, and what it offers.
pub(crate) struct Owner {
    pub(crate) side: Side,
    pub(crate) pool: Pool,
    pub(crate) stream: StreamId,
}

pub(crate) fn config(devices: usize) -> HostConfig {
    let device = HostDevice { capacity_bytes: 1024 * GRANULE, granularity_bytes: GRANULE };
    HostConfig { devices: vec![device; devices], host_memory: device, fabric: true, ..HostConfig::default() }
}

impl Side {
    pub(crate) fn new(devices: usize) -> Self {
        let host = HostDriver::new(config(devices)).unwrap();
        Self { faulty: Faulty::new(host.clone()), host }
    }

    pub(crate) fn driver(&self) -> Arc<dyn Driver> {
        self.faulty.clone()
    }

    pub(crate) fn importer(&self, ticket: &Ticket) -> Importer {
        Importer::connect_within(self.driver(), ticket, PATIENCE).unwrap()
    }

    pub(crate) fn imported_bytes(&self) -> u64 {
        self.host.ledger().imported_bytes.values().sum()
    }

    pub(crate) fn put(&self, at: Address, bytes: &[u8]) {
        self.host.poke(at, bytes).unwrap();
    }

    #[track_caller]
    pub(crate) fn demand(&self, at: Address, bytes: &[u8]) {
        let mut found = vec![0; bytes.len()];
        self.host.peek(at, &mut found).unwrap();
        assert_eq!(found, bytes);
    }

    #[track_caller]
    pub(crate) fn demand_empty(&self) {
        let ledger = self.host.ledger();
        assert!(ledger.is_empty(), "left behind: {ledger:?}");
        assert_eq!(ledger.refusals, 0, "{:?}", ledger.last_refusal);
    }
}

impl Owner {
    pub(crate) fn new() -> Self {
        Self::of_kind(HandleKind::FileDescriptor)
    }

    pub(crate) fn of_kind(kind: HandleKind) -> Self {
        let side = Side::new(2);
        let settings = Settings { kind, handle_bytes_max: GRANULE, ..Settings::default() };
        let pool = Pool::new(side.driver(), settings).unwrap();
        let stream = pool.register(RawStream { device: FIRST, value: 0 }).unwrap();
        Self { side, pool, stream }
    }

    /// A block with handles of its own.
    pub(crate) fn block(&self, granules: u64) -> Block {
        self.pool.alloc(&Request::new(granules * GRANULE, self.stream).exclusive()).unwrap()
    }

    /// An exporter with a thread.
    pub(crate) fn served(&self) -> Exporter {
        let exporter = Exporter::new(&self.pool).unwrap();
        exporter.serve().unwrap();
        exporter
    }

    /// Frees a block, and proves that nothing is left of it once all is given back.
    #[track_caller]
    pub(crate) fn end(self, blocks: &[Block]) {
        blocks.iter().for_each(|block| self.pool.free(block.address).unwrap());
        self.pool.check().unwrap();
        let Self { side, pool, .. } = self;
        drop(pool);
        side.demand_empty();
    }
}

pub(crate) fn part(block: Block) -> Part {
    block.into()
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn at(import: &Import) -> Address {
    import.address().unwrap()
}

impl Side {
    /// A device's identity as errors spell it.
    pub(crate) fn host_uuid(&self, device: usize) -> String {
        let uuid = self.host.devices().unwrap()[device].uuid;
        let hex: String = uuid.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}
