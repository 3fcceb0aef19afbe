//! Scans over short arrays of lengths: the only loops of the hit path. They know nothing of extents.

/// Index of the first length that is at least `wanted`.
#[inline]
pub(crate) fn first_at_least(lengths: &[u32], wanted: u32) -> Option<usize> {
    // Blocks of eight without an early exit inside, so that the compiler turns them into vector compares.
    let (blocks, rest) = lengths.as_chunks::<8>();
    for (index, block) in blocks.iter().enumerate() {
        if block.iter().fold(false, |found, &length| found | (length >= wanted)) {
            return block.iter().position(|&length| length >= wanted).map(|offset| index * 8 + offset);
        }
    }
    rest.iter().position(|&length| length >= wanted).map(|offset| blocks.len() * 8 + offset)
}

/// The largest length, 0 of none.
#[inline]
pub(crate) fn largest(lengths: &[u32]) -> u32 {
    lengths.iter().fold(0, |largest, &length| if length > largest { length } else { largest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scans_agree_with_the_plain_search(lengths in prop::collection::vec(0_u32..50, 0..130), wanted in 0_u32..60) {
            prop_assert_eq!(first_at_least(&lengths, wanted), lengths.iter().position(|&length| length >= wanted));
            prop_assert_eq!(largest(&lengths), lengths.iter().copied().max().unwrap_or(0));
        }
    }
}
