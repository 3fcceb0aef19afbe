//! Devices as C numbers them: the driver's ordinals, and -1 for the host as a place for memory.

use crate::refusal::{Refusal, Result};
use crate::status::Status;
use stitchpool_driver::DeviceId;

const HOST: i32 = -1;

/// The device that a number means: an ordinal of the driver's, or -1 for the host as a place for memory.
///
/// # Errors
/// No device could have that number.
#[inline]
pub fn device_of(number: i32) -> Result<DeviceId> {
    match u16::try_from(number) {
        Ok(ordinal) if !DeviceId(ordinal).is_host() => Ok(DeviceId(ordinal)),
        _ if number == HOST => Ok(DeviceId::HOST),
        _ => {
            let words = format!("device {number} cannot be: devices are numbered from 0, and {HOST} is the host");
            Err(Refusal::new(Status::UnknownDevice, words))
        }
    }
}

/// The number of a device.
#[must_use]
pub fn number_of(device: DeviceId) -> i32 {
    if device.is_host() { HOST } else { i32::from(device.0) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_device_has_one_number() {
        for device in [DeviceId(0), DeviceId(7), DeviceId(u16::MAX - 1), DeviceId::HOST] {
            assert_eq!(device_of(number_of(device)).unwrap(), device);
        }
        for number in [-2, i32::MIN, 65_535, 65_536, i32::MAX] {
            assert_eq!(device_of(number).unwrap_err().status, Status::UnknownDevice);
        }
    }
}
