//! The kernels of one device: PTX that the driver compiles for whatever device it has, and the two
//! counters that checks add to. It decides nothing about sizes or grids.

use super::context::Entered;
use super::failure::call;
use super::stream::handle_of;
use crate::{RawStream, Result, Verb};
use std::ffi::{CStr, c_void};
use stitchpool_cuda_sys::{CUdeviceptr, CUfunction, CUmodule, Cuda};

/// The kernels' text, ended by the zero that the driver looks for.
const PTX: &str = concat!(include_str!("kernels.ptx"), "\0");
/// The most arguments that a kernel takes.
const ARGUMENTS_MAX: usize = 5;

/// What one device has of ours.
pub(super) struct Workshop {
    module: CUmodule,
    pub(super) fill: CUfunction,
    pub(super) verify: CUfunction,
    pub(super) delay: CUfunction,
    /// Two words: words that differed, words compared.
    pub(super) counters: CUdeviceptr,
    /// Only for reading the counters, so that the reading waits for nobody's work.
    stream: RawStream,
}

impl Workshop {
    /// Makes all of it, or none.
    pub(super) fn build(entered: &Entered<'_>) -> Result<Self> {
        let cuda = entered.cuda;
        let mut module = CUmodule::NULL;
        // SAFETY: `module` is a live place; `PTX` ends with a zero; a context is current: `entered` proves it.
        unsafe { call!(cuda, Verb::Kernel, cuModuleLoadData(&mut module, PTX.as_ptr().cast())) }?;
        let mut workshop = Self {
            module,
            fill: CUfunction::NULL,
            verify: CUfunction::NULL,
            delay: CUfunction::NULL,
            counters: 0,
            stream: RawStream { device: entered.device, value: 0 },
        };
        match workshop.furnish(entered) {
            Ok(()) => Ok(workshop),
            Err(error) => {
                workshop.clear(entered);
                Err(error)
            }
        }
    }

    fn furnish(&mut self, entered: &Entered<'_>) -> Result<()> {
        let cuda = entered.cuda;
        self.fill = function(cuda, self.module, c"stitchpool_fill")?;
        self.verify = function(cuda, self.module, c"stitchpool_verify")?;
        self.delay = function(cuda, self.module, c"stitchpool_delay")?;
        self.stream = entered.create_stream()?;
        // SAFETY: `counters` is a live place; a context is current: `entered` proves it.
        unsafe { call!(cuda, Verb::Kernel, cuMemAlloc_v2(&mut self.counters, size_of::<[u64; 2]>())) }?;
        let bytes = size_of::<[u64; 2]>();
        // On our own stream: the synchronous forms go through the legacy stream and would wait for others.
        // SAFETY: the counters were just made in this context, and are so long.
        unsafe { call!(cuda, Verb::Kernel, cuMemsetD8Async(self.counters, 0, bytes, handle_of(self.stream))) }?;
        // SAFETY: `stream` was just made in this context.
        unsafe { entered.finish_stream(self.stream) }
    }

    /// Gives everything back. On the way down nobody can act on a refusal.
    pub(super) fn clear(self, entered: &Entered<'_>) {
        if self.counters != 0 {
            // SAFETY: `counters` came from cuMemAlloc and is not named again.
            let _ = unsafe { (entered.cuda.cuMemFree_v2)(self.counters) };
        }
        if self.stream.value != 0 {
            // SAFETY: `stream` came from `create_stream` and is not named again.
            let _ = unsafe { entered.destroy_stream(self.stream) };
        }
        // SAFETY: `module` was loaded by `build` and is not named again, nor are its functions.
        let _ = unsafe { (entered.cuda.cuModuleUnload)(self.module) };
    }

    /// Words that differed, words compared.
    pub(super) fn counted(&self, entered: &Entered<'_>) -> Result<[u64; 2]> {
        let mut counted = [0_u64; 2];
        let (to, bytes) = (counted.as_mut_ptr().cast(), size_of_val(&counted));
        let stream = handle_of(self.stream);
        // SAFETY: a copy to pageable memory has ended when the call returns; both places hold two words.
        unsafe { call!(entered.cuda, Verb::Kernel, cuMemcpyDtoHAsync_v2(to, self.counters, bytes, stream)) }?;
        // SAFETY: `stream` is ours and live.
        unsafe { entered.finish_stream(self.stream) }?;
        Ok(counted)
    }
}

fn function(cuda: &Cuda, module: CUmodule, name: &CStr) -> Result<CUfunction> {
    let mut function = CUfunction::NULL;
    // SAFETY: `function` is a live place; `module` is loaded; `name` ends with a zero.
    unsafe { call!(cuda, Verb::Kernel, cuModuleGetFunction(&mut function, module, name.as_ptr())) }?;
    Ok(function)
}

impl Entered<'_> {
    /// # Safety
    /// - `function` takes exactly these arguments, and all that it does with them is allowed.
    /// - `stream` is live and belongs to this context.
    pub(super) unsafe fn launch(
        &self,
        stream: RawStream,
        function: CUfunction,
        (blocks, width): (u32, u32),
        arguments: &[u64],
    ) -> Result<()> {
        let mut places = [std::ptr::null_mut::<c_void>(); ARGUMENTS_MAX];
        for (place, argument) in places.iter_mut().zip(arguments) {
            *place = std::ptr::from_ref(argument).cast_mut().cast();
        }
        let (stream, places, none) = (handle_of(stream), places.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the driver only reads, as many places as the kernel declares, before it returns.
        unsafe {
            call!(self.cuda, Verb::Kernel, cuLaunchKernel(function, blocks, 1, 1, width, 1, 1, 0, stream, places, none))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_each_kernel_once_and_ends_with_the_only_zero() {
        for kernel in ["stitchpool_fill(", "stitchpool_verify(", "stitchpool_delay("] {
            assert_eq!(PTX.matches(kernel).count(), 1, "{kernel}");
        }
        assert_eq!(PTX.find('\0'), Some(PTX.len() - 1));
    }
}
