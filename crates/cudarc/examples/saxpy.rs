//! y = a x + y on a GPU, twenty times, with vectors that come from a pool and return there:
//! `cargo run --release -p stitchpool-cudarc --example saxpy`

use cudarc::driver::{CudaContext, CudaFunction, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::error::Error;
use stitchpool_cudarc::PoolStream;
use stitchpool_driver::cuda::CudaDriver;
use stitchpool_pool::{Pool, Settings};

const ROUNDS: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    // First: it says in words what is missing where there is no GPU.
    let pool = Pool::new(CudaDriver::open()?, Settings::default())?;
    let context = CudaContext::new(0)?;
    let stream = PoolStream::new(&pool, context.new_stream()?)?;
    let copies = PoolStream::new(&pool, context.new_stream()?)?;
    let saxpy = context.load_module(Ptx::from_src(include_str!("saxpy.ptx")))?.load_function("saxpy")?;

    let mut wrong = 0;
    for round in 0..ROUNDS {
        wrong += step(&stream, &copies, &saxpy, (round + 1) << 18)?;
    }
    stream.synchronize()?;
    copies.synchronize()?;
    let stats = pool.stats();
    println!("{ROUNDS} rounds, {wrong} wrong numbers; {} allocations, {} of them hits", stats.allocs, stats.hits());
    println!("still live: {} bytes", stats.devices[0].holdings.live_bytes);
    if wrong > 0 { Err("the sums are wrong".into()) } else { Ok(()) }
}

/// One vector of `count` numbers; how many of them are wrong.
fn step(stream: &PoolStream, copies: &PoolStream, saxpy: &CudaFunction, count: u32) -> Result<usize, Box<dyn Error>> {
    let (a, numbers) = (3.0_f32, (0..count).map(|at| at as f32).collect::<Vec<_>>());
    let x = stream.clone_htod(&numbers)?;
    let mut y = stream.alloc_zeros::<f32>(count as usize)?;
    let mut launch = stream.launch_builder(saxpy);
    launch.arg(&a).arg(&x).arg(&mut y).arg(&count);
    // SAFETY: these are the kernel's parameters, and both vectors have `count` numbers.
    unsafe { launch.launch(LaunchConfig::for_num_elems(count)) }?;
    // Read by another stream: cudarc makes it wait for the kernel, and the drop of `y` waits for it.
    let sums = copies.clone_dtoh(&y)?;
    Ok(sums.iter().zip(&numbers).filter(|(sum, number)| **sum != a * **number).count())
}
