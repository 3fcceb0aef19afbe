//! A pool's settings.

use super::device::device_of;
use crate::place::items;
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::status::Status;
use std::time::Duration;
use stitchpool_driver::HandleKind;
use stitchpool_pool::Settings;

/// `stitchpool_settings`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CSettings {
    pub struct_size: usize,
    pub devices: *const i32,
    pub device_count: usize,
    pub limit_bytes: u64,
    pub headroom_bytes: u64,
    pub handle_bytes_max: u64,
    pub address_bytes: u64,
    pub wait_max_us: u64,
    pub seal_pause_us: u64,
    pub decay_us: u64,
    pub handle_kind: i32,
    pub stream_waits: i32,
    pub open_to_peers: i32,
    pub poison: i32,
    pub backup_keep_bytes: u64,
    pub background_thread: i32,
    pub reserved: i32,
}

// SAFETY: the size, then numbers and a pointer, without padding.
unsafe impl Record for CSettings {
    const NAME: &'static str = "stitchpool_settings";
    const FIRST_BYTES: usize = 88;
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl CSettings {
    /// The pool's own defaults.
    pub(crate) fn default_of_pool() -> Self {
        let settings = Settings::default();
        Self {
            struct_size: size_of::<Self>(),
            devices: std::ptr::null(),
            device_count: 0,
            limit_bytes: settings.limit_bytes.unwrap_or(u64::MAX),
            headroom_bytes: settings.headroom_bytes,
            handle_bytes_max: settings.handle_bytes_max,
            address_bytes: settings.address_bytes.unwrap_or(0),
            wait_max_us: micros(settings.wait_max),
            seal_pause_us: micros(settings.seal_pause),
            decay_us: micros(settings.decay),
            handle_kind: settings.kind as i32,
            stream_waits: i32::from(settings.stream_waits),
            open_to_peers: i32::from(settings.open_to_peers),
            poison: i32::from(settings.poison),
            backup_keep_bytes: settings.backup_keep_bytes,
            background_thread: i32::from(settings.background_thread),
            reserved: 0,
        }
    }

    /// # Safety
    /// - `devices` is null, or `device_count` numbers can be read there.
    pub(crate) unsafe fn understood(&self) -> Result<Settings> {
        // SAFETY: the caller answers for the list.
        let devices = unsafe { items(self.devices, self.device_count, "stitchpool_settings.devices") }?;
        let kind = match self.handle_kind {
            0 => HandleKind::Private,
            1 => HandleKind::FileDescriptor,
            2 => HandleKind::Fabric,
            kind => return Err(wrong("handle_kind", kind, "0 is private, 1 file descriptor, 2 fabric")),
        };
        if self.reserved != 0 {
            return Err(wrong("reserved", self.reserved, "it is 0"));
        }
        let stream_waits = yes_or_no("stream_waits", self.stream_waits)?;
        let open_to_peers = yes_or_no("open_to_peers", self.open_to_peers)?;
        Ok(Settings {
            devices: devices.iter().map(|device| device_of(*device)).collect::<Result<_>>()?,
            limit_bytes: (self.limit_bytes != u64::MAX).then_some(self.limit_bytes),
            headroom_bytes: self.headroom_bytes,
            handle_bytes_max: self.handle_bytes_max,
            kind,
            stream_waits,
            open_to_peers,
            poison: yes_or_no("poison", self.poison)?,
            backup_keep_bytes: self.backup_keep_bytes,
            background_thread: yes_or_no("background_thread", self.background_thread)?,
            wait_max: Duration::from_micros(self.wait_max_us),
            seal_pause: Duration::from_micros(self.seal_pause_us),
            decay: Duration::from_micros(self.decay_us),
            address_bytes: (self.address_bytes != 0).then_some(self.address_bytes),
            ..Settings::default()
        })
    }
}

fn yes_or_no(field: &str, value: i32) -> Result<bool> {
    match value {
        0 | 1 => Ok(value == 1),
        value => Err(wrong(field, value, "0 is no, 1 yes")),
    }
}

fn wrong(field: &str, value: i32, meaning: &str) -> Refusal {
    Refusal::new(Status::InvalidArgument, format!("{}.{field} is {value}: {meaning}", CSettings::NAME))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stitchpool_driver::DeviceId;

    #[test]
    fn the_defaults_are_the_pools_own() {
        // SAFETY: there is no list.
        assert_eq!(unsafe { CSettings::default_of_pool().understood() }.unwrap(), Settings::default());
    }

    #[test]
    fn every_field_reaches_the_pool() {
        let devices = [1, -1];
        let settings = CSettings {
            struct_size: size_of::<CSettings>(),
            devices: devices.as_ptr(),
            device_count: 2,
            limit_bytes: 3,
            headroom_bytes: 4,
            handle_bytes_max: 5,
            address_bytes: 6,
            wait_max_us: 7,
            seal_pause_us: 8,
            decay_us: 9,
            handle_kind: 1,
            stream_waits: 0,
            open_to_peers: 1,
            poison: 1,
            backup_keep_bytes: 10,
            background_thread: 1,
            reserved: 0,
        };
        let expected = Settings {
            devices: vec![DeviceId(1), DeviceId::HOST],
            limit_bytes: Some(3),
            headroom_bytes: 4,
            handle_bytes_max: 5,
            kind: HandleKind::FileDescriptor,
            stream_waits: false,
            open_to_peers: true,
            poison: true,
            backup_keep_bytes: 10,
            background_thread: true,
            wait_max: Duration::from_micros(7),
            seal_pause: Duration::from_micros(8),
            decay: Duration::from_micros(9),
            address_bytes: Some(6),
            ..Settings::default()
        };
        // SAFETY: `devices` has two numbers.
        assert_eq!(unsafe { settings.understood() }.unwrap(), expected);
        let background_thread = CSettings { background_thread: -1, ..settings };
        let reserved = CSettings { reserved: 1, ..settings };
        let handle_kind = CSettings { handle_kind: 3, ..settings };
        for wrong in [handle_kind, CSettings { stream_waits: 2, ..settings }, background_thread, reserved] {
            // SAFETY: as before.
            assert_eq!(unsafe { wrong.understood() }.unwrap_err().status, Status::InvalidArgument);
        }
    }
}
