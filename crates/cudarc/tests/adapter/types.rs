//! Where a slice is accepted: these functions are compiled, and nobody calls them.

use cudarc::driver::{CudaFunction, DevicePtr, DevicePtrMut, LaunchArgs, PushKernelArg};
use stitchpool_cudarc::{PoolSlice, PoolStream};
use stitchpool_driver::host::{HostConfig, HostDriver};
use stitchpool_pool::{Pool, Settings};

fn read<T>(_: &impl DevicePtr<T>) {}
fn write<T>(_: &mut impl DevicePtrMut<T>) {}
fn send<T: Send + Sync>() {}

/// As cudarc's own slices: copies, kernels, parts.
fn everywhere(stream: &PoolStream, kernel: &CudaFunction, one: &PoolSlice<f32>, other: &mut PoolSlice<f32>) {
    read::<f32>(one);
    write::<f32>(other);
    stream.memcpy_dtod(one, other).unwrap();
    stream.memcpy_dtod(&one.as_view().slice(1..3), &mut other.as_view_mut().slice_mut(0..2)).unwrap();
    let mut launch: LaunchArgs<'_> = stream.launch_builder(kernel);
    launch.arg(one).arg(&mut *other).arg(&1_u32);
}

#[test]
fn a_slice_goes_wherever_cudarc_asks_for_device_memory() {
    let _: fn(&PoolStream, &CudaFunction, &PoolSlice<f32>, &mut PoolSlice<f32>) = everywhere;
    send::<PoolSlice<f32>>();
    send::<PoolStream>();
}

#[test]
fn a_pool_says_which_driver_it_runs_on() {
    let pool = Pool::new(HostDriver::new(HostConfig::default()).unwrap(), Settings::default()).unwrap();
    assert_eq!(pool.driver_name(), "host");
}
