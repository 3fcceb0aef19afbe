//! A stitched range as one line of letters.

use crate::Mapping;
use stitchpool_driver::DeviceId;

/// Draws a run of `bytes` as one letter a granule: `A` for device 0, `B` for device 1 and so on,
/// `#` from device 26 on, `h` for host memory, `.` where nothing stands. Mappings come in address
/// order, each with its offset from the start.
#[must_use]
pub fn picture<'a>(mappings: impl Iterator<Item = (u64, &'a Mapping)>, bytes: u64, granule_bytes: u64) -> String {
    let mut line = String::new();
    let granules = |bytes: u64| usize::try_from(bytes / granule_bytes).unwrap_or(usize::MAX);
    for (offset_bytes, mapping) in mappings {
        let empty = granules(offset_bytes).saturating_sub(line.len());
        line.extend(std::iter::repeat_n('.', empty));
        line.extend(std::iter::repeat_n(letter(mapping.device()), granules(mapping.bytes())));
    }
    let empty = granules(bytes).saturating_sub(line.len());
    line.extend(std::iter::repeat_n('.', empty));
    line
}

fn letter(device: DeviceId) -> char {
    match device {
        device if device.is_host() => 'h',
        DeviceId(ordinal @ 0..26) => char::from(b'A' + u8::try_from(ordinal).unwrap_or(0)),
        _ => '#',
    }
}
