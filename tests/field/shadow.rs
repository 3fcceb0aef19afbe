//! A shadow of the pool: which blocks are live. It panics where two overlap.

use std::collections::BTreeMap;
use std::sync::Mutex;
use stitchpool::driver::Address;
use stitchpool::{Block, Request};

/// Live blocks by address, each with its length.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    live: Mutex<BTreeMap<Address, u64>>,
}

impl Shadow {
    /// A block was given out.
    #[track_caller]
    pub(crate) fn enter(&self, block: Block, request: &Request) {
        assert!(block.bytes >= request.bytes, "{block:?} is shorter than {} bytes", request.bytes);
        assert!(block.address.is_aligned(request.alignment_bytes), "{block:?} is not aligned");
        let mut live = self.live.lock().unwrap();
        let end = block.address + block.bytes;
        let below = live.range(..end).next_back().map(|(&at, &bytes)| (at, at + bytes));
        assert!(below.is_none_or(|(_, end)| end <= block.address), "{block:?} overlaps {below:?}");
        live.insert(block.address, block.bytes);
    }

    /// A block is about to be freed.
    #[track_caller]
    pub(crate) fn leave(&self, address: Address) {
        self.live.lock().unwrap().remove(&address).expect("the test frees what it was given");
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.live.lock().unwrap().keys().copied().collect()
    }

    pub(crate) fn count(&self) -> u64 {
        self.live.lock().unwrap().len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.live.lock().unwrap().values().sum()
    }
}
