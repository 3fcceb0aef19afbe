//! Batches: what is copied at a time while the driver works on the handles before and behind it. Plain
//! arithmetic.

/// A batch is full at so many bytes: a copy of this length runs at the link's speed, and driver calls for the
/// next are many enough to be hidden behind it.
const BATCH_BYTES: u64 = 64 << 20;
/// It is full at so many handles too: the first copy waits for what the driver does for each of them, and so
/// does the end for the last.
const BATCH_HANDLES: usize = 8;

/// How many of these handles the next batch takes; of any handles one at least.
pub(crate) fn next_batch(sizes: impl IntoIterator<Item = u64>) -> usize {
    let mut batch_bytes = 0;
    let fits = sizes.into_iter().take(BATCH_HANDLES).take_while(|bytes| {
        let open = batch_bytes == 0 || batch_bytes + bytes <= BATCH_BYTES;
        batch_bytes += bytes;
        open
    });
    fits.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_full_at_its_bytes_or_its_handles_and_never_empty() {
        assert_eq!(next_batch([BATCH_BYTES * 4, 1]), 1);
        assert_eq!(next_batch([BATCH_BYTES / 2; 5]), 2);
        assert_eq!(next_batch([4096; 100]), BATCH_HANDLES);
        assert_eq!(next_batch([4096; 3]), 3);
        assert_eq!(next_batch([]), 0);
    }
}
