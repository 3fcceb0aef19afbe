//! How large new handles are: cost goes with their number, waste with their size. Pure arithmetic.

/// A handle is at most this part of the pool's physical bytes, or of the request, whichever is more.
const PHYSICAL_PART: u64 = 2048;
const REQUEST_PART: u64 = 128;
/// One that is made in place of small ones, which have been moved and will be again, is at most this part of them.
const RENEWED_PART: u64 = 1344;
const RENEWED_REQUEST_PART: u64 = 192;
/// One that other blocks will share is at most this part of what the pool will hold, or so many granules.
const SHARED_PART: u64 = 1024;
const SHARED_GRANULES: u64 = 2;
/// A request of more than this part of what the pool holds is no block among others.
const ALONE_PART: u64 = 2;

/// The size of new handles: cost goes with their number, waste with their size.
pub(crate) fn handle_bytes(granule_bytes: u64, physical_bytes: u64, request_bytes: u64, max_bytes: u64) -> u64 {
    sized(granule_bytes, (physical_bytes / PHYSICAL_PART).max(request_bytes / REQUEST_PART), max_bytes)
}

/// The same for handles that are made in place of small ones. They come by hundreds, for one block each time: they need
/// not fit each other's places, and go by granules, not by powers of two.
pub(crate) fn renewed_handle_bytes(granule_bytes: u64, physical_bytes: u64, request_bytes: u64, max_bytes: u64) -> u64 {
    let wanted_bytes = (physical_bytes / RENEWED_PART).max(request_bytes / RENEWED_REQUEST_PART);
    within(granule_bytes, wanted_bytes - wanted_bytes % granule_bytes, max_bytes)
}

/// The same for a block among others, that others will follow in its place: what these leave of a handle is stranded.
/// One that is a large part of the pool goes by itself alone.
pub(crate) fn shared_handle_bytes(granule_bytes: u64, physical_bytes: u64, request_bytes: u64, max_bytes: u64) -> u64 {
    let shared_bytes = power_below((physical_bytes + request_bytes) / SHARED_PART).max(SHARED_GRANULES * granule_bytes);
    let most_bytes = if request_bytes > physical_bytes / ALONE_PART { max_bytes } else { max_bytes.min(shared_bytes) };
    handle_bytes(granule_bytes, physical_bytes, request_bytes, most_bytes)
}

fn sized(granule_bytes: u64, wanted_bytes: u64, max_bytes: u64) -> u64 {
    within(granule_bytes, power_below(wanted_bytes), max_bytes)
}

/// A granule at least, and no more than what the settings allow.
fn within(granule_bytes: u64, bytes: u64, max_bytes: u64) -> u64 {
    bytes.clamp(granule_bytes, max_bytes.max(granule_bytes))
}

/// The largest power of two that is no more, 0 of 0.
const fn power_below(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { 1 << bytes.ilog2() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_grow_with_the_pool_and_the_request() {
        let (mib, gib) = (1 << 20, 1 << 30);
        let cases = [
            (0, 100 * mib, 2 * mib),
            (7 * gib, 512 * mib, 4 * mib),
            (8 * gib, 512 * mib, 4 * mib),
            (8 * gib, mib, 4 * mib),
            (40 * gib, mib, 16 * mib),
            (40 * gib, 4 * gib, 32 * mib),
            (400 * gib, 400 * gib, 64 * mib),
        ];
        for (physical, request, expected) in cases {
            assert_eq!(handle_bytes(2 * mib, physical, request, 64 * mib), expected, "{physical} {request}");
        }
        assert_eq!(handle_bytes(4096, 0, 1, 4096), 4096);
    }

    #[test]
    fn renewed_handles_follow_the_pool_granule_by_granule() {
        let (mib, gib) = (1 << 20, 1 << 30);
        let cases = [
            (gib, mib, 2 * mib),
            (8 * gib, mib, 6 * mib),
            (11 * gib, mib, 8 * mib),
            (13 * gib, mib, 8 * mib),
            (14 * gib, mib, 10 * mib),
            (8 * gib, 4 * gib, 20 * mib),
            (400 * gib, mib, 64 * mib),
        ];
        for (physical, request, expected) in cases {
            assert_eq!(renewed_handle_bytes(2 * mib, physical, request, 64 * mib), expected, "{physical} {request}");
        }
        assert_eq!(renewed_handle_bytes(2 * mib, 8 * gib, mib, mib), 2 * mib, "a granule is the least there is");
    }

    #[test]
    fn a_large_block_among_others_gets_handles_that_suit_them() {
        let (mib, gib) = (1 << 20, 1 << 30);
        let cases = [
            (0, 100 * mib, 2 * mib),
            (0, 8 * gib, 64 * mib),
            (4 * gib, 4 * gib, 32 * mib),
            (gib, gib / 2, 4 * mib),
            (4 * gib, 2 * gib, 4 * mib),
            (8 * gib, 2 * gib, 8 * mib),
            (64 * gib, 2 * gib, 32 * mib),
            (0, 100 * gib, 64 * mib),
        ];
        for (physical, request, expected) in cases {
            assert_eq!(shared_handle_bytes(2 * mib, physical, request, 64 * mib), expected, "{physical} {request}");
        }
        assert_eq!(shared_handle_bytes(4096, 0, 1, 4096), 4096);
    }
}
