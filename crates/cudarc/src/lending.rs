//! What a stream lends: slices in the memory of its pool, empty, zeroed or copied. It keeps none of them.

use crate::error::{Error, Result};
use crate::pool_slice::PoolSlice;
use crate::pool_stream::PoolStream;
use cudarc::driver::{DevicePtr, DeviceRepr, HostSlice, ValidAsZeroBits};
use stitchpool_pool::{Buffer, Request};

impl PoolStream {
    /// A slice of `len` elements with undefined content.
    ///
    /// # Errors
    /// [`Error::Length`], CUDA's, or the pool's, as [`Pool::alloc`](stitchpool_pool::Pool::alloc).
    ///
    /// # Safety
    /// - Nothing reads an element as a `T` before it was written.
    pub unsafe fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<PoolSlice<T>> {
        // SAFETY: the caller answers for the content.
        unsafe { self.alloc_as(len, |request| request) }
    }

    /// The same with a request that says more: an arena, a placement, further readers, handles of its own.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    ///
    /// # Safety
    /// - Nothing reads an element as a `T` before it was written.
    pub unsafe fn alloc_as<T: DeviceRepr>(
        &self,
        len: usize,
        shape: impl FnOnce(Request) -> Request,
    ) -> Result<PoolSlice<T>> {
        let (bytes, stream) = (bytes::<T>(len)?, self.id());
        let request = Request { bytes, stream, ..shape(Request::new(bytes, stream)) };
        let buffer = Buffer::new(self.pool(), &request)?;
        // SAFETY: the buffer is as long as `request` says, and on its stream; the caller answers for the content.
        unsafe { PoolSlice::new(self.clone(), buffer, len) }
    }

    /// A slice of `len` elements that are all zero.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<PoolSlice<T>> {
        // SAFETY: it is written before anybody has it.
        let mut slice = unsafe { self.alloc(len) }?;
        self.memset_zeros(&mut slice)?;
        Ok(slice)
    }

    /// A slice with a copy of what is on the host.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn clone_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(&self, source: &Src) -> Result<PoolSlice<T>> {
        // SAFETY: it is written before anybody has it.
        let mut slice = unsafe { self.alloc(source.len()) }?;
        self.memcpy_htod(source, &mut slice)?;
        Ok(slice)
    }

    /// A slice with a copy of what is on a device.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn clone_dtod<T: DeviceRepr, Src: DevicePtr<T>>(&self, source: &Src) -> Result<PoolSlice<T>> {
        // SAFETY: it is written before anybody has it.
        let mut slice = unsafe { self.alloc(source.len()) }?;
        self.memcpy_dtod(source, &mut slice)?;
        Ok(slice)
    }
}

/// The length of a slice; a slice of nothing has an address too.
fn bytes<T>(len: usize) -> Result<u64> {
    let element_bytes = size_of::<T>();
    let bytes = len.checked_mul(element_bytes).ok_or(Error::Length { len, element_bytes })?;
    Ok(bytes.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_nothing_has_a_place_and_one_beyond_all_addresses_is_refused() {
        assert_eq!(bytes::<f32>(0).unwrap(), 1);
        assert_eq!(bytes::<f32>(3).unwrap(), 12);
        let refused = bytes::<f32>(usize::MAX / 2).unwrap_err();
        assert!(refused.to_string().contains("elements of 4 bytes"), "{refused}");
    }
}
