//! Addresses whose memory must stay where it is, because somebody outside the pool uses the handles. It
//! knows no block.

use std::collections::BTreeMap;

/// Pinned granules, by address.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// How many pins hold a granule, never 0.
    holds: BTreeMap<u64, u32>,
}

impl Pins {
    /// Pins whole granules from `start` to `end`, which are multiples of one.
    pub(crate) fn add(&mut self, start: u64, end: u64, granule_bytes: u64) {
        for granule in granules(start, end, granule_bytes) {
            *self.holds.entry(granule).or_default() += 1;
        }
    }

    /// Takes back what one [`Pins::add`] has done.
    pub(crate) fn remove(&mut self, start: u64, end: u64, granule_bytes: u64) {
        for granule in granules(start, end, granule_bytes) {
            let left = self.holds.remove(&granule).map_or(0, |holds| holds - 1);
            if left > 0 {
                self.holds.insert(granule, left);
            }
        }
    }

    /// Whether a granule from `start` to `end` is pinned.
    pub(crate) fn touch(&self, start: u64, end: u64) -> bool {
        self.holds.range(start..end).next().is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Bytes of host memory that the pins take.
    pub(crate) fn own_bytes(&self) -> u64 {
        (self.holds.len() * 2 * size_of::<(u64, u32)>()) as u64
    }
}

fn granules(start: u64, end: u64, granule_bytes: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(start), move |at| at.checked_add(granule_bytes)).take_while(move |at| *at < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_granule_is_pinned_until_its_last_pin_goes() {
        let mut pins = Pins::default();
        pins.add(100, 400, 100);
        pins.add(300, 500, 100);
        assert!(pins.touch(100, 101) && pins.touch(400, 500) && pins.touch(0, 900));
        assert!(!pins.touch(0, 100) && !pins.touch(500, 900));
        pins.remove(100, 400, 100);
        assert!(!pins.touch(100, 300) && pins.touch(300, 400));
        pins.remove(300, 500, 100);
        assert!(pins.is_empty());
    }
}
