//! What was asked for parts of a run of addresses. Parts do not overlap; what was asked last counts.

use std::collections::BTreeMap;
use std::ops::Range;

/// What holds where, by the start of each part, with its end.
#[derive(Clone, Debug)]
pub(crate) struct Parts<T> {
    by_start: BTreeMap<u64, (u64, T)>,
}

impl<T: Clone> Parts<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// What was asked for the part that `at` lies in.
    pub(crate) fn at(&self, at: u64) -> Option<&T> {
        let (_, (end, asked)) = self.by_start.range(..=at).next_back()?;
        (*end > at).then_some(asked)
    }

    /// Where a part begins or ends behind `at`, the nearest.
    pub(crate) fn border_behind(&self, at: u64) -> Option<u64> {
        let begins = self.by_start.range(at + 1..).next().map(|(&start, _)| start);
        let ends = self.by_start.range(..=at).next_back().map(|(_, (end, _))| *end).filter(|&end| end > at);
        begins.into_iter().chain(ends).min()
    }

    /// What was asked, in address order.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &T> {
        self.by_start.values().map(|(_, asked)| asked)
    }

    /// From now on this holds on a part: what `change` makes of what was asked there before.
    pub(crate) fn change(&mut self, part: Range<u64>, change: impl Fn(Option<&T>) -> T) {
        self.cut(part.start);
        self.cut(part.end);
        let mut gaps = Vec::new();
        let mut at = part.start;
        for (&start, (end, asked)) in self.by_start.range_mut(part.clone()) {
            gaps.push(at..start);
            at = *end;
            *asked = change(Some(asked));
        }
        gaps.push(at..part.end);
        for gap in gaps.into_iter().filter(|gap| !gap.is_empty()) {
            self.by_start.insert(gap.start, (gap.end, change(None)));
        }
    }

    /// Looks at all that was asked, and forgets what `keep` is false for.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        self.by_start.retain(|_, (_, asked)| keep(asked));
    }

    /// Makes `at` a border between parts.
    fn cut(&mut self, at: u64) {
        let Some((_, (end, asked))) = self.by_start.range_mut(..at).next_back().filter(|(_, (end, _))| *end > at)
        else {
            return;
        };
        let tail = (*end, asked.clone());
        *end = at;
        self.by_start.insert(at, tail);
    }
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self { by_start: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACES: u64 = 24;

    proptest! {
        #[test]
        fn what_was_asked_last_holds_and_parts_do_not_overlap(
            asks in prop::collection::vec((0..PLACES, 1..8_u64, 0..5_u32), 0..40),
        ) {
            let (mut parts, mut shadow) = (Parts::default(), [None; PLACES as usize]);
            for (start, length, asked) in asks {
                let part = start..(start + length).min(PLACES);
                // One of them asks for more than was asked before.
                let change = |before: Option<&u32>| if asked == 4 { before.map_or(9, |before| before + 10) } else { asked };
                parts.change(part.clone(), change);
                part.for_each(|at| shadow[at as usize] = Some(change(shadow[at as usize].as_ref())));
                for at in 0..PLACES {
                    prop_assert_eq!(parts.at(at), shadow[at as usize].as_ref());
                    let border = parts.border_behind(at).unwrap_or(PLACES);
                    prop_assert!(border > at);
                    let stretch = &shadow[at as usize..border as usize];
                    prop_assert!(stretch.iter().all(|other| *other == stretch[0]), "{:?} from {} to {}", stretch, at, border);
                }
                let starts = parts.by_start.keys().skip(1);
                prop_assert!(starts.zip(parts.by_start.values()).all(|(start, (end, _))| start >= end));
            }
        }
    }
}
