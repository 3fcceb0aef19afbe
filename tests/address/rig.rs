//! A pool on some driver, with streams, kernels and a size that suits the driver.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;
use stitchpool::chunks::{Origin, Piece, RangeSpec, StitchedRange, copy};
use stitchpool::driver::cuda::CudaDriver;
use stitchpool::driver::host::{HostConfig, HostDevice, HostDriver};
use stitchpool::driver::{
    Address, DeviceId, Driver, Grant, HandleKind, Kernels, Metered, RawStream, Rights, Spent, Verb,
};
use stitchpool::{Pool, Settings};

pub(crate) const HERE: DeviceId = DeviceId(0);

/// A driver under test.
pub(crate) struct Rig {
    pub(crate) driver: Arc<dyn Driver>,
    /// It counts and times the driver's calls.
    meter: Arc<Metered>,
    kernels: Arc<dyn Kernels>,
    /// What the rows call a GiB.
    pub(crate) gib: u64,
    row: &'static str,
}

/// Runs a row on a host driver of two devices, on which a GiB is a MiB.
pub(crate) fn on_host(row: fn(&Rig)) {
    let device = HostDevice { capacity_bytes: 64 << 20, granularity_bytes: 4 << 10 };
    let config =
        HostConfig { devices: vec![device; 2], host_memory: device, watch_order: true, ..HostConfig::default() };
    let host = HostDriver::new(config).unwrap();
    let meter = Metered::timed(host.clone());
    let rig = Rig { driver: meter.clone(), meter, kernels: host.clone(), gib: 1 << 20, row: "" };
    row(&rig);
    rig.assert_right();
    assert!(host.ledger().is_empty(), "{:?}", host.ledger());
}

/// Runs a row on the GPUs of this machine, if there are any, one row at a time.
pub(crate) fn on_cuda(name: &'static str, row: fn(&Rig)) {
    static CUDA: OnceLock<Option<Arc<CudaDriver>>> = OnceLock::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Some(cuda) = CUDA.get_or_init(|| CudaDriver::open().ok()) else {
        println!("no GPU: skipped");
        return;
    };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let meter = Metered::timed(cuda.clone());
    let rig = Rig { driver: meter.clone(), meter, kernels: cuda.clone(), gib: cuda_gib_bytes(), row: name };
    row(&rig);
    rig.assert_right();
}

/// What a GPU's rows call a GiB, in bytes: under a sanitizer it is smaller. The figures then mean nothing.
fn cuda_gib_bytes() -> u64 {
    match std::env::var("STITCHPOOL_GIB_BYTES") {
        Ok(words) => words.parse().expect("STITCHPOOL_GIB_BYTES is a number of bytes"),
        Err(_) => 1 << 30,
    }
}

// SAFETY of every unsafe call below: rows use streams that they made and not yet destroyed, and ranges that
// are live, awake and open to the stream's device.
impl Rig {
    pub(crate) fn pool(&self, settings: Settings) -> Pool {
        Pool::new(self.driver.clone(), settings).unwrap()
    }

    pub(crate) fn devices(&self) -> Vec<DeviceId> {
        self.driver.devices().unwrap().into_iter().map(|device| device.id).collect()
    }

    pub(crate) fn granule(&self) -> u64 {
        self.driver.granularity(HERE, HandleKind::Private).unwrap()
    }

    pub(crate) fn stream(&self, device: DeviceId) -> RawStream {
        self.kernels.create_stream(device).unwrap()
    }

    pub(crate) fn end(&self, stream: RawStream) {
        // SAFETY: see above.
        unsafe { self.kernels.destroy_stream(stream) }.unwrap();
    }

    pub(crate) fn fill(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) {
        // SAFETY: see above.
        unsafe { self.kernels.fill(stream, at, bytes, seed) }.unwrap();
    }

    pub(crate) fn verify(&self, stream: RawStream, at: Address, bytes: u64, seed: u64) {
        // SAFETY: see above.
        unsafe { self.kernels.verify(stream, at, bytes, seed) }.unwrap();
    }

    pub(crate) fn delay(&self, stream: RawStream, micros: u64) {
        // SAFETY: see above.
        unsafe { self.kernels.delay(stream, micros) }.unwrap();
    }

    pub(crate) fn finish(&self, stream: RawStream) {
        // SAFETY: see above.
        unsafe { self.kernels.finish_stream(stream) }.unwrap();
    }

    pub(crate) fn free_bytes(&self, device: DeviceId) -> u64 {
        self.driver.memory(device).unwrap().free_bytes
    }

    /// Fails if any kernel of any row saw a wrong word or a fault.
    #[track_caller]
    pub(crate) fn assert_right(&self) {
        let tally = self.kernels.tally().unwrap();
        assert_eq!((tally.wrong_bytes, tally.faults), (0, Vec::new()));
    }

    /// Milliseconds that something takes.
    pub(crate) fn timed<T>(act: impl FnOnce() -> T) -> (f64, T) {
        let start = Instant::now();
        let outcome = act();
        (start.elapsed().as_secs_f64() * 1e3, outcome)
    }

    /// What something takes, and what of it the driver does.
    pub(crate) fn phases(&self, act: impl FnOnce()) -> Phases {
        let before = self.meter.spent();
        let (all_ms, ()) = Self::timed(act);
        Phases { all_ms, spent: self.meter.spent().since(&before) }
    }

    /// Says what was measured, on a GPU: figures of the host driver mean nothing.
    pub(crate) fn say(&self, words: &str) {
        if self.driver.name() == "cuda" {
            println!("measured: {}: {words}", self.row);
        }
    }

    /// Milliseconds that one plain copy of `bytes` takes from memory of `from` to memory of `to`, the way there
    /// and the way back: best of three, the memory warm.
    pub(crate) fn copy_ms(&self, from: DeviceId, to: DeviceId, bytes: u64) -> (f64, f64) {
        let origin = Origin::new(self.driver.clone());
        let stream = self.stream(HERE);
        let range = |device: DeviceId| {
            let granule_bytes = self.granule().max(self.driver.granularity(device, HandleKind::Private).unwrap());
            let handle_bytes = bytes.next_multiple_of(granule_bytes);
            let spec = RangeSpec { bytes: handle_bytes, granule_bytes, handle_bytes, kind: HandleKind::Private };
            let mut range = StitchedRange::reserve(&origin, spec).unwrap();
            let grants = [Grant { device: HERE, rights: Rights::ReadWrite }];
            range.grow(&[Piece { device, bytes: handle_bytes }], &grants).unwrap();
            range
        };
        let (near, far) = (range(from), range(to));
        self.fill(stream, near.at(), bytes, 1);
        self.finish(stream);
        let one_way = |to: Address, from: Address| {
            let tries = (0..3).map(|_| {
                let (ms, ()) = Self::timed(|| {
                    copy(&origin, stream, to, from, bytes).unwrap();
                    self.finish(stream);
                });
                ms
            });
            tries.fold(f64::INFINITY, f64::min)
        };
        let ways = (one_way(far.at(), near.at()), one_way(near.at(), far.at()));
        self.end(stream);
        ways
    }
}

/// What an operation took, by what was done.
pub(crate) struct Phases {
    pub(crate) all_ms: f64,
    spent: Spent,
}

impl Phases {
    /// The faster of two.
    pub(crate) fn faster(self, other: Self) -> Self {
        if other.all_ms < self.all_ms { other } else { self }
    }

    /// Milliseconds and calls of each verb that took any time, `wait` being what the CPU waited for copies, and
    /// what is left for the pool itself.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for (verb, spent) in self.spent.by_verb().filter(|(_, spent)| spent.wall_us > WORTH_US) {
            let name = if verb == Verb::Finish { "wait" } else { verb.word() };
            words += &format!("{name} {:.2} ({}), ", spent.wall_us / 1e3, spent.calls);
        }
        format!("{words}the pool itself {:.2}", self.all_ms - self.spent.total().wall_us / 1e3)
    }
}

/// What takes less is not told.
const WORTH_US: f64 = 10.0;
