//! What a device may do with memory.

use super::device::device_of;
use crate::place::items;
use crate::refusal::{Refusal, Result};
use crate::status::Status;
use stitchpool_driver::{Grant, Rights};

/// `stitchpool_grant`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CGrant {
    pub device: i32,
    pub rights: i32,
}

impl CGrant {
    fn understood(self) -> Result<Grant> {
        Ok(Grant { device: device_of(self.device)?, rights: rights_of(self.rights)? })
    }
}

/// The rights that a number means.
pub(crate) fn rights_of(number: i32) -> Result<Rights> {
    match number {
        0 => Ok(Rights::None),
        1 => Ok(Rights::Read),
        2 => Ok(Rights::ReadWrite),
        _ => {
            let words = format!("rights are {number}: 0 is none, 1 read, 2 read and write");
            Err(Refusal::new(Status::InvalidArgument, words))
        }
    }
}

/// # Safety
/// - `grants` is null, or `count` of them can be read there until the call returns.
pub(crate) unsafe fn grants_of(grants: *const CGrant, count: usize) -> Result<Vec<Grant>> {
    // SAFETY: the caller answers for the list.
    unsafe { items(grants, count, "grants") }?.iter().map(|grant| grant.understood()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stitchpool_driver::DeviceId;

    #[test]
    fn every_right_has_its_number() {
        let grants = [0, 1, 2].map(|rights| CGrant { device: rights - 1, rights });
        // SAFETY: there are three.
        let understood = unsafe { grants_of(grants.as_ptr(), 3) }.unwrap();
        let rights = [Rights::None, Rights::Read, Rights::ReadWrite];
        let devices = [DeviceId::HOST, DeviceId(0), DeviceId(1)];
        let expected: Vec<Grant> =
            devices.into_iter().zip(rights).map(|(device, rights)| Grant { device, rights }).collect();
        assert_eq!(understood, expected);
        for rights in [-1, 3] {
            let refusal = CGrant { device: 0, rights }.understood().unwrap_err();
            assert_eq!(refusal.status, Status::InvalidArgument);
        }
    }
}
