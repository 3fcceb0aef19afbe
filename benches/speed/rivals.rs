//! What the pool is measured against: three indexes without lock, log, statistics or checks, which
//! flatters them.

use super::contender::Contender;
use offset_allocator::{Allocation, Allocator};
use rlsf::Tlsf;
use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The unit that all of them count in.
const UNIT_BYTES: u64 = 512;

/// Best fit on ordered maps, as it is written by hand everywhere.
pub struct OrderedMap {
    by_size: BTreeSet<(u64, u64)>,
    by_start: BTreeMap<u64, u64>,
    live: HashMap<u64, u64>,
}

impl Contender for OrderedMap {
    type Block = u64;
    const NAME: &'static str = "ordered map";

    fn with_room(bytes: u64) -> Self {
        let mut map = Self { by_size: BTreeSet::new(), by_start: BTreeMap::new(), live: HashMap::new() };
        map.add(1 << 40, bytes);
        map
    }

    #[inline]
    fn alloc(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.next_multiple_of(UNIT_BYTES);
        let &(whole_bytes, start) = self.by_size.range((bytes, 0)..).next().unwrap();
        self.by_size.remove(&(whole_bytes, start));
        self.by_start.remove(&start);
        if whole_bytes > bytes {
            self.add(start + bytes, whole_bytes - bytes);
        }
        self.live.insert(start, bytes);
        start
    }

    #[inline]
    fn free(&mut self, start: u64) {
        let mut bytes = self.live.remove(&start).unwrap();
        let mut low = start;
        if let Some(next_bytes) = self.by_start.remove(&(start + bytes)) {
            self.by_size.remove(&(next_bytes, start + bytes));
            bytes += next_bytes;
        }
        let before = self.by_start.range(..start).next_back().map(|(&at, &bytes)| (at, bytes));
        if let Some((at, before_bytes)) = before.filter(|&(at, bytes)| at + bytes == start) {
            self.by_start.remove(&at);
            self.by_size.remove(&(before_bytes, at));
            (low, bytes) = (at, bytes + before_bytes);
        }
        self.add(low, bytes);
    }
}

impl OrderedMap {
    fn add(&mut self, start: u64, bytes: u64) {
        self.by_size.insert((bytes, start));
        self.by_start.insert(start, bytes);
    }
}

/// The crate offset-allocator: bins of sizes, freed by a handle that the caller keeps.
pub struct OffsetAllocator(Allocator);

impl Contender for OffsetAllocator {
    type Block = Allocation;
    const NAME: &'static str = "offset-allocator";

    fn with_room(bytes: u64) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        Self(Allocator::with_max_allocs(units, 4 << 20))
    }

    #[inline]
    fn alloc(&mut self, bytes: u64) -> Allocation {
        self.0.allocate(bytes.div_ceil(UNIT_BYTES) as u32).unwrap()
    }

    #[inline]
    fn free(&mut self, block: Allocation) {
        self.0.free(block);
    }
}

/// The crate rlsf. It writes its headers into the memory that it gives out, so it gets real memory, a
/// sixteenth of what the others name: its smallest block is 32 bytes, as theirs is 512.
pub struct Rlsf(Tlsf<'static, u32, u32, 32, 32>);

/// So many of the others' bytes are one of rlsf's.
const SHRUNK: u64 = 16;

impl Contender for Rlsf {
    type Block = NonNull<u8>;
    const NAME: &'static str = "rlsf";

    fn with_room(bytes: u64) -> Self {
        let memory = Box::leak(Box::<[u8]>::new_uninit_slice((bytes / SHRUNK) as usize));
        let mut tlsf = Tlsf::new();
        tlsf.insert_free_block(memory as &mut [MaybeUninit<u8>]);
        Self(tlsf)
    }

    #[inline]
    fn alloc(&mut self, bytes: u64) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(UNIT_BYTES) / SHRUNK;
        self.0.allocate(Layout::from_size_align(bytes as usize, 1).unwrap()).unwrap()
    }

    #[inline]
    fn free(&mut self, block: NonNull<u8>) {
        // SAFETY: `alloc` gave the block with alignment 1, and each is freed once.
        unsafe { self.0.deallocate(block, 1) };
    }
}
