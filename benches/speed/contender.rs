//! What the benches measure: something that gives out places. The pool is here, with all it does on a hit.

use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{Address, DeviceId, Kernels, RawStream};
use stitchpool::{Pool, Request, Settings, StreamId};

/// Something that gives out places and takes them back. A place that it lacks ends the bench.
pub trait Contender {
    /// What a place is freed by.
    type Block: Copy;
    /// Its row in the tables.
    const NAME: &'static str;
    /// One that has `bytes` free.
    fn with_room(bytes: u64) -> Self;
    fn alloc(&mut self, bytes: u64) -> Self::Block;
    fn free(&mut self, block: Self::Block);
    /// How often it had to ask a driver for more.
    fn misses(&self) -> u64 {
        0
    }
}

/// The pool on the host driver, whose memory nobody touches. Room is made by one large block, so that
/// every later request is a hit.
pub struct Stitchpool {
    pool: Pool,
    stream: StreamId,
}

impl Stitchpool {
    /// One contender for each of so many streams of one pool, each with room for `bytes`.
    pub fn open(streams: u64, bytes: u64) -> Vec<Self> {
        let device = HostDevice { capacity_bytes: 4 << 40, ..HostDevice::default() };
        let driver = HostDriver::new(HostConfig { devices: vec![device], ..HostConfig::default() }).unwrap();
        let streams: Vec<RawStream> = (0..streams).map(|_| driver.create_stream(DeviceId(0)).unwrap()).collect();
        let pool = Pool::new(driver, Settings::default()).unwrap();
        let streams = streams.into_iter().map(|stream| pool.register(stream).unwrap());
        let contenders: Vec<Self> = streams.map(|stream| Self { pool: pool.clone(), stream }).collect();
        for contender in &contenders {
            let room = pool.alloc(&Request::new(bytes, contender.stream)).unwrap();
            pool.free(room.address).unwrap();
        }
        contenders
    }

    /// The same, for another thread.
    pub fn share(&self) -> Self {
        Self { pool: self.pool.clone(), stream: self.stream }
    }
}

impl Contender for Stitchpool {
    type Block = Address;
    const NAME: &'static str = "stitchpool";

    fn with_room(bytes: u64) -> Self {
        Self::open(1, bytes).remove(0)
    }

    #[inline]
    fn alloc(&mut self, bytes: u64) -> Address {
        self.pool.alloc(&Request::new(bytes, self.stream)).unwrap().address
    }

    #[inline]
    fn free(&mut self, address: Address) {
        self.pool.free(address).unwrap();
    }

    fn misses(&self) -> u64 {
        self.pool.stats().misses
    }
}
