//! Lists of devices as sets.

use std::collections::BTreeSet;
use stitchpool_driver::DeviceId;

/// Each of them once, in order.
pub(crate) fn distinct(devices: impl IntoIterator<Item = DeviceId>) -> Vec<DeviceId> {
    devices.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
