//! Limits of this machine as far as they bound a pool: found by trying where that is harmless.

use super::feature::{Feature, Verdict};
use crate::bytes::show;
use crate::machine::Machine;
use serde::Serialize;
use std::sync::Arc;
use stitchpool_chunks::{Origin, Reservation};
use stitchpool_driver::{DeviceInfo, HandleKind};

/// What was found out.
#[derive(Debug, Serialize)]
pub struct Limits {
    /// The largest power of two of addresses that could be reserved at once.
    pub reservation_bytes: u64,
    /// Why twice as much could not.
    pub reservation_refusal: Option<String>,
}

/// Nobody has more addresses than this.
const RESERVATION_BYTES_MAX: u64 = 1 << 47;
/// A pool wants so many times the devices' memory in addresses, and takes less where it must.
const ADDRESSES_PER_BYTE: u64 = 64;

impl Limits {
    /// Reserves less and less until it is granted, and gives it back.
    pub fn ask(origin: &Arc<Origin>) -> Self {
        let mut refusal = None;
        let mut bytes = RESERVATION_BYTES_MAX;
        while bytes >= 1 << 21 {
            match Reservation::reserve(origin, bytes, 0) {
                Ok(_) => return Self { reservation_bytes: bytes, reservation_refusal: refusal },
                Err(error) => refusal = Some(error.to_string()),
            }
            bytes /= 2;
        }
        Self { reservation_bytes: 0, reservation_refusal: refusal }
    }

    /// Verdicts on what the limits allow.
    pub fn features(&self, origin: &Arc<Origin>, devices: &[DeviceInfo], machine: &Machine) -> Vec<Feature> {
        vec![self.addresses(devices), one_granule(origin, devices, machine), open_files(machine)]
    }

    fn addresses(&self, devices: &[DeviceInfo]) -> Feature {
        let memory_bytes: u64 = devices.iter().map(|device| device.total_bytes).sum();
        let times = self.reservation_bytes / memory_bytes.max(1);
        let verdict = match times {
            ADDRESSES_PER_BYTE.. => Verdict::Works,
            2.. => Verdict::InPart,
            _ => Verdict::DoesNotWork,
        };
        let reason = format!("{} in one reservation, {times} times the memory", show(self.reservation_bytes));
        Feature {
            feature: "addresses",
            verdict,
            reason,
            remedy: (verdict != Verdict::Works)
                .then_some("raise the limit of address space (ulimit -v), or set address_bytes"),
            see: None,
        }
    }
}

/// Whether a pool of handles of one granule, which never fails for fragmentation, could hold everything.
fn one_granule(origin: &Arc<Origin>, devices: &[DeviceInfo], machine: &Machine) -> Feature {
    const NAME: &str = "all memory in handles of one granule";
    let driver = origin.driver();
    if driver.name() != "host" {
        return Feature::not_probed(NAME, "it would take minutes; 71,313 handles of 2 MiB filled an H200");
    }
    let granules = devices.iter().map(|device| driver.granularity(device.id, HandleKind::Private));
    let Ok(Some(granule_bytes)) = granules.reduce(|most, next| Ok(most?.min(next?))).transpose() else {
        return Feature::not_probed(NAME, "no device tells its granularity");
    };
    let Some(map_count) = machine.map_count else {
        return Feature::not_probed(NAME, "this system does not tell vm.max_map_count");
    };
    let memory_bytes: u64 = devices.iter().map(|device| device.total_bytes).sum();
    let held_bytes = map_count.saturating_mul(granule_bytes);
    let verdict = match held_bytes {
        _ if held_bytes >= memory_bytes => Verdict::Works,
        _ if held_bytes >= memory_bytes / 16 => Verdict::InPart,
        _ => Verdict::DoesNotWork,
    };
    let reason = format!(
        "vm.max_map_count allows {map_count} mappings: {} of {} in handles of {}",
        show(held_bytes.min(memory_bytes)),
        show(memory_bytes),
        show(granule_bytes)
    );
    let remedy =
        (verdict != Verdict::Works).then_some("raise vm.max_map_count (sysctl), or leave handle_bytes_max larger");
    Feature { feature: NAME, verdict, reason, remedy, see: None }
}

/// Exported and imported handles take a descriptor each.
fn open_files(machine: &Machine) -> Feature {
    const NAME: &str = "open files for exported handles";
    /// Exports of a card's memory in handles of 64 MiB.
    const ENOUGH: u64 = 4096;
    let Some(limit) = machine.open_files else {
        return Feature::not_probed(NAME, "this system does not tell the limit");
    };
    let soft = limit.soft.unwrap_or(u64::MAX);
    let verdict = if soft >= ENOUGH { Verdict::Works } else { Verdict::InPart };
    let word = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |count| count.to_string());
    let reason = format!("{} may be open, and the limit may be raised to {}", word(limit.soft), word(limit.hard));
    let remedy = (verdict != Verdict::Works).then_some("raise it (ulimit -n) before many handles are exported");
    Feature { feature: NAME, verdict, reason, remedy, see: None }
}
