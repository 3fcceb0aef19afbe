//! How much memory is free now: a device's by its context, the host's by the kernel's own table.

use super::context::Entered;
use super::failure::call;
use crate::{DeviceId, DeviceMemory, Error, ErrorKind, Result, Verb};

/// Where Linux says how much memory there is.
const HOST_TABLE: &str = "/proc/meminfo";

impl Entered<'_> {
    pub(super) fn memory(&self) -> Result<DeviceMemory> {
        let (mut free_bytes, mut total_bytes) = (0, 0);
        // SAFETY: both are live places for the answer, and a context is current: `self` proves it.
        unsafe { call!(self.cuda, Verb::Memory, cuMemGetInfo_v2(&mut free_bytes, &mut total_bytes)) }?;
        Ok(DeviceMemory { free_bytes: free_bytes as u64, total_bytes: total_bytes as u64 })
    }
}

/// The host's memory; free is what can be had without swapping.
pub(super) fn of_host() -> Result<DeviceMemory> {
    let refuse = |words: String| Error::new(Verb::Memory, ErrorKind::NotSupported, words).on(DeviceId::HOST);
    let table =
        std::fs::read_to_string(HOST_TABLE).map_err(|error| refuse(format!("{HOST_TABLE} cannot be read: {error}")))?;
    parse(&table).ok_or_else(|| refuse(format!("{HOST_TABLE} has no MemTotal or MemAvailable")))
}

fn parse(table: &str) -> Option<DeviceMemory> {
    let bytes = |name: &str| {
        let row = table.lines().find_map(|line| line.strip_prefix(name))?;
        row.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(DeviceMemory { free_bytes: bytes("MemAvailable:")?, total_bytes: bytes("MemTotal:")? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_hosts_table_is_read_in_bytes() {
        let table = "MemTotal:       16303428 kB\nMemFree:          301240 kB\nMemAvailable:   12004100 kB\n";
        let memory = parse(table).unwrap();
        assert_eq!(memory, DeviceMemory { free_bytes: 12_004_100 * 1024, total_bytes: 16_303_428 * 1024 });
    }

    #[test]
    fn a_table_without_its_rows_gives_no_answer() {
        assert_eq!(parse("MemTotal:       16303428 kB\n"), None);
        assert_eq!(parse("MemTotal: many kB\nMemAvailable: 1 kB\n"), None);
    }

    #[test]
    fn this_host_has_memory_and_not_more_free_than_there_is() {
        let memory = of_host().unwrap();
        assert!(memory.free_bytes > 0 && memory.free_bytes <= memory.total_bytes, "{memory:?}");
    }
}
