//! Batches: what is copied at a time while the driver works on the handles before and behind it. Plain
//! arithmetic.

/// How large batches are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Measure {
    /// A batch is full at so many bytes.
    bytes: u64,
    /// It is full at so many handles too.
    handles: usize,
}

impl Measure {
    /// A copy of this length runs at the link's speed, and driver calls for the next are many enough to be hidden
    /// behind it. The first copy waits for what the driver does for each handle, and so does the end for the last.
    pub(crate) const SMALL: Self = Self { bytes: 64 << 20, handles: 8 };
    /// Where nothing is copied while the handles of a batch are unmapped, so that few pauses are better: measured,
    /// one takes 20 us and a copy of this length 1.3 ms over NVLink.
    pub(crate) const LARGE: Self = Self { bytes: 512 << 20, handles: usize::MAX };

    /// How many of these handles the next batch takes; of any handles one at least.
    pub(crate) fn next_batch(self, sizes: impl IntoIterator<Item = u64>) -> usize {
        let mut batch_bytes = 0;
        let fits = sizes.into_iter().take(self.handles).take_while(|bytes| {
            let open = batch_bytes == 0 || batch_bytes + bytes <= self.bytes;
            batch_bytes += bytes;
            open
        });
        fits.count()
    }
}

#[cfg(test)]
mod tests {
    use super::Measure;

    #[test]
    fn a_batch_is_full_at_its_bytes_or_its_handles_and_never_empty() {
        let Measure { bytes, handles } = Measure::SMALL;
        assert_eq!(Measure::SMALL.next_batch([bytes * 4, 1]), 1);
        assert_eq!(Measure::SMALL.next_batch([bytes / 2; 5]), 2);
        assert_eq!(Measure::SMALL.next_batch([4096; 100]), handles);
        assert_eq!(Measure::SMALL.next_batch([4096; 3]), 3);
        assert_eq!(Measure::LARGE.next_batch([4096; 100]), 100);
        assert_eq!(Measure::SMALL.next_batch([]), 0);
    }
}
