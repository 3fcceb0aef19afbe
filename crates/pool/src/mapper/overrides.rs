//! Rights that were asked for a chain or for parts of it, over what its heap gives. It opens nothing.

use crate::mapper::parts::Parts;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use stitchpool_driver::{Address, DeviceId, Grant, Rights};

/// What was asked of one chain; what was asked last counts. Whatever maps memory there asks
/// [`Overrides::at`] who gets rights on it, so rights outlive the memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    /// For all of the chain, also for what it grows by.
    whole: Vec<Grant>,
    /// Over `whole`.
    parts: Parts<Vec<Grant>>,
}

impl Overrides {
    /// Who gets rights on a mapping at `at`, where the heap gives `given`.
    pub(crate) fn at(&self, at: Address, given: &Arc<[Grant]>) -> Arc<[Grant]> {
        if self.is_empty() {
            return given.clone();
        }
        let whole = over(given, &self.whole);
        self.parts.at(at.0).map_or_else(|| positive(&whole), |grants| positive(&over(&whole, grants)))
    }

    /// Whether nothing was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.parts.is_empty()
    }

    /// Where a part begins or ends behind `at`, the nearest: a new mapping that crossed it would have the rights
    /// of both sides.
    pub(crate) fn border_behind(&self, at: u64) -> Option<u64> {
        self.parts.border_behind(at)
    }

    /// The devices that something was given to, in places.
    pub(crate) fn users(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let given = self.whole.iter().chain(self.parts.asked().flatten()).filter(|grant| grant.rights != Rights::None);
        given.map(|grant| grant.device)
    }

    /// From now on these grants hold on all of the chain.
    pub(crate) fn set_whole(&mut self, grants: &[Grant]) {
        self.whole = over(&self.whole, grants);
        self.forget_in_parts(grants);
    }

    /// From now on these grants hold on a part.
    pub(crate) fn set(&mut self, part: Range<u64>, grants: &[Grant]) {
        self.parts.change(part, |known| over(known.map_or(&[], Vec::as_slice), grants));
    }

    /// What was asked for these devices does not count any more.
    pub(crate) fn forget(&mut self, grants: &[Grant]) {
        self.whole.retain(|known| !names(grants, known));
        self.forget_in_parts(grants);
    }

    fn forget_in_parts(&mut self, grants: &[Grant]) {
        self.parts.retain(|part| {
            part.retain(|known| !names(grants, known));
            !part.is_empty()
        });
    }
}

/// Grants by device, each once: those of `above`, and of `below` what they leave.
pub(crate) fn over(below: &[Grant], above: &[Grant]) -> Vec<Grant> {
    let by_device: BTreeMap<_, _> = below.iter().chain(above).map(|grant| (grant.device, *grant)).collect();
    by_device.into_values().collect()
}

/// Grants of something: what nobody is given, a new mapping has not.
pub(crate) fn positive(grants: &[Grant]) -> Arc<[Grant]> {
    grants.iter().copied().filter(|grant| grant.rights != Rights::None).collect()
}

fn names(grants: &[Grant], known: &Grant) -> bool {
    grants.iter().any(|grant| grant.device == known.device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACES: u64 = 24;

    #[derive(Clone, Debug)]
    enum Ask {
        Whole,
        Part(Range<u64>),
        Forget,
    }

    fn grants() -> impl Strategy<Value = Vec<Grant>> {
        let rights = prop::sample::select(vec![Rights::None, Rights::Read, Rights::ReadWrite]);
        let one = (0..4_u16, rights).prop_map(|(device, rights)| Grant { device: DeviceId(device), rights });
        prop::collection::vec(one, 1..4).prop_map(|grants| over(&[], &grants))
    }

    fn asks() -> impl Strategy<Value = (Ask, Vec<Grant>)> {
        let part = (0..PLACES, 1..8_u64).prop_map(|(start, length)| Ask::Part(start..(start + length).min(PLACES)));
        (prop_oneof![1 => Just(Ask::Whole), 5 => part, 1 => Just(Ask::Forget)], grants())
    }

    proptest! {
        #[test]
        fn what_was_asked_last_counts_at_every_place(given in grants(), asks in prop::collection::vec(asks(), 0..40)) {
            let given = positive(&given);
            let (mut overrides, mut shadow) = (Overrides::default(), vec![given.to_vec(); PLACES as usize]);
            for (ask, grants) in asks {
                match ask {
                    Ask::Whole => {
                        overrides.set_whole(&grants);
                        shadow.iter_mut().for_each(|place| *place = over(place, &grants));
                    }
                    Ask::Part(part) => {
                        overrides.set(part.clone(), &grants);
                        part.for_each(|at| shadow[at as usize] = over(&shadow[at as usize], &grants));
                    }
                    Ask::Forget => {
                        overrides.forget(&grants);
                        for place in &mut shadow {
                            place.retain(|known| !names(&grants, known));
                            let again = given.iter().filter(|known| names(&grants, known)).copied();
                            *place = over(place, &again.collect::<Vec<_>>());
                        }
                    }
                }
                for at in 0..PLACES {
                    prop_assert_eq!(overrides.at(Address(at), &given), positive(&shadow[at as usize]));
                    let border = overrides.border_behind(at).unwrap_or(PLACES);
                    prop_assert!(border > at);
                    let same = shadow[at as usize..border as usize].windows(2).all(|pair| positive(&pair[0]) == positive(&pair[1]));
                    prop_assert!(same, "rights change between {} and {}", at, border);
                }
            }
        }
    }
}
