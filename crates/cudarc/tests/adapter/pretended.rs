//! The adapter on a libcuda that is pretended: each test builds that library, runs itself again where cudarc finds it,
//! and reads in what order work was queued. Memory is the host driver's.

use cudarc::driver::{CudaContext, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use stitchpool_cudarc::{Error, PoolStream};
use stitchpool_driver::host::{HostConfig, HostDriver, StreamMode};
use stitchpool_driver::{DeviceId, Kernels};
use stitchpool_pool::{Pool, Settings};

const LOG: &str = "PRETENDED_LOG";

/// Runs `body` in a process whose libcuda is the pretended one, and gives the lines that it wrote there.
fn pretend(test: &str, words: &[(&str, &str)], body: fn()) -> Option<Vec<String>> {
    if std::env::var_os(LOG).is_some() {
        body();
        return None;
    }
    let folder = library(test);
    let log = folder.join("log");
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", &format!("pretended::{test}"), "--nocapture"]);
    again.env("LD_LIBRARY_PATH", &folder).env(LOG, &log).envs(words.iter().copied());
    let done = again.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    Some(std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect())
}

/// A folder with the pretended library alone.
fn library(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pretended/libcuda.c");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
    let built = compiler.arg(folder.join("libcuda.so")).arg(source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    folder
}

/// Two streams that cudarc and the host driver know by the same values.
struct Bench {
    host: Arc<HostDriver>,
    pool: Pool,
    context: Arc<CudaContext>,
    streams: [PoolStream; 2],
}

impl Bench {
    fn new() -> Self {
        let host = HostDriver::new(HostConfig { streams: StreamMode::ByHand, ..HostConfig::default() }).unwrap();
        let pool = Pool::new(host.clone(), Settings::default()).unwrap();
        let context = CudaContext::new(0).unwrap();
        let streams = [0, 1].map(|_| {
            let (raw, stream) = (host.create_stream(DeviceId(0)).unwrap(), context.new_stream().unwrap());
            assert_eq!(raw.value, stream.cu_stream() as u64);
            over(&pool, stream)
        });
        Self { host, pool, context, streams }
    }

    fn live_bytes(&self) -> u64 {
        self.pool.stats().devices[0].holdings.live_bytes
    }
}

fn over(pool: &Pool, stream: Arc<CudaStream>) -> PoolStream {
    // SAFETY: the pretended library works on the host driver's addresses, and its streams have that driver's values.
    unsafe { PoolStream::over(pool, stream) }.unwrap()
}

#[test]
fn bytes_and_kernels_reach_the_pools_memory_and_it_returns_on_drop() {
    pretend("bytes_and_kernels_reach_the_pools_memory_and_it_returns_on_drop", &[], || {
        let Bench { context, streams: [stream, _], .. } = &Bench::new();
        let kernel = context.load_module(Ptx::from_src("saxpy")).unwrap().load_function("saxpy").unwrap();
        let x = stream.clone_htod(&[1.0_f32, 2.0, 3.0]).unwrap();
        let mut y = stream.alloc_zeros::<f32>(3).unwrap();
        assert_eq!((stream.pool().stats().devices[0].holdings.live_bytes, x.buffer().bytes()), (1024, 512));
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&2.0_f32).arg(&x).arg(&mut y).arg(&3_u32);
        // SAFETY: these are the kernel's parameters.
        unsafe { launch.launch(LaunchConfig::for_num_elems(3)) }.unwrap();
        assert_eq!(stream.clone_dtoh(&y).unwrap(), [2.0, 4.0, 6.0]);
        let copy = stream.clone_dtod(&y.as_view().slice(1..)).unwrap();
        assert_eq!(stream.clone_dtoh(&copy).unwrap(), [4.0, 6.0]);
        drop((x, y, copy));
        let stats = stream.pool().stats();
        assert_eq!((stats.devices[0].holdings.live_bytes, stats.frees), (0, 3));
    });
}

#[test]
fn a_stream_waits_for_what_another_did_with_its_slice_before_it_is_freed() {
    let log = pretend("a_stream_waits_for_what_another_did_with_its_slice_before_it_is_freed", &[], || {
        let bench = Bench::new();
        let [own, other] = &bench.streams;
        let slice = own.clone_htod(&[7_u8; 100]).unwrap();
        other.clone_dtoh(&slice).unwrap();
        drop(slice);
        assert_eq!(bench.live_bytes(), 0);
    });
    if let Some(log) = log {
        // The write is an event on the own stream, which the other waits for; its read is one there, which the own
        // stream waits for when the slice goes.
        let order = [
            "event 0x3 on stream 0x10",
            "stream 0x20 waits for event 0x3",
            "event 0x2 on stream 0x20",
            "stream 0x10 waits for event 0x2",
        ];
        assert!(log.windows(order.len()).any(|lines| lines == order), "{log:?}");
    }
}

#[test]
fn without_tracking_a_recorded_use_keeps_the_memory_until_that_stream_is_past() {
    pretend("without_tracking_a_recorded_use_keeps_the_memory_until_that_stream_is_past", &[], || {
        let bench = Bench::new();
        let [own, other] = &bench.streams;
        // SAFETY: what it is for is done here: the other stream's use is told to the pool.
        unsafe { bench.context.disable_event_tracking() };
        let slice = own.clone_htod(&[7_u8; 2 << 20]).unwrap();
        slice.record_use(other).unwrap();
        let address = slice.buffer().address();
        drop(slice);
        assert_eq!(bench.pool.stats().devices[0].holdings.pending_bytes, 2 << 20);
        let next = own.alloc_zeros::<u8>(2 << 20).unwrap();
        assert_ne!(next.buffer().address(), address);
        bench.host.run_all();
    });
}

#[test]
fn a_stream_is_retired_with_its_last_slice_and_destroyed_after_that() {
    let log = pretend("a_stream_is_retired_with_its_last_slice_and_destroyed_after_that", &[], || {
        let Bench { host, pool, streams: [own, other], context } = Bench::new();
        let id = own.id();
        let slice = own.alloc_zeros::<u8>(100).unwrap();
        drop((own, other));
        assert!(pool.alloc(&stitchpool_pool::Request::new(1, id)).is_ok(), "the slice keeps its stream");
        drop(slice);
        let refused = pool.alloc(&stitchpool_pool::Request::new(1, id));
        assert!(matches!(refused, Err(stitchpool_pool::Error::UnknownStream { .. })), "{refused:?}");
        drop((pool, host, context));
    });
    if let Some(log) = log {
        let destroyed: Vec<_> = log.iter().filter(|line| line.starts_with("destroy")).collect();
        assert_eq!(destroyed, ["destroy stream 0x20", "destroy stream 0x10"]);
    }
}

#[test]
fn a_context_that_makes_no_events_is_a_refusal_and_leaves_nothing_live() {
    let test = "a_context_that_makes_no_events_is_a_refusal_and_leaves_nothing_live";
    pretend(test, &[("PRETENDED_BROKEN", "1")], || {
        let bench = Bench::new();
        let refused = bench.streams[0].alloc_zeros::<u8>(100).unwrap_err();
        assert!(matches!(refused, Error::Cuda(_)), "{refused}");
        assert_eq!(bench.live_bytes(), 0);
    });
}

#[test]
fn a_pool_that_is_not_on_cuda_is_refused() {
    pretend("a_pool_that_is_not_on_cuda_is_refused", &[], || {
        let bench = Bench::new();
        let refused = PoolStream::new(&bench.pool, bench.context.default_stream()).unwrap_err();
        assert!(refused.to_string().contains("CudaDriver::open()"), "{refused}");
    });
}

#[test]
fn the_default_streams_are_one_to_the_pool() {
    pretend("the_default_streams_are_one_to_the_pool", &[], || {
        let bench = Bench::new();
        for stream in [bench.context.default_stream(), bench.context.per_thread_stream()] {
            let slice = over(&bench.pool, stream).clone_htod(&[1_u8, 2]).unwrap();
            assert_eq!(slice.pool_stream().clone_dtoh(&slice).unwrap(), [1, 2]);
        }
        assert_eq!(bench.live_bytes(), 0);
    });
}
