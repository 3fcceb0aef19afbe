//! Memory that is short in a life: arenas whose blocks may be put out, and which of them were.

use crate::case::{Kind, Store};
use crate::shadow::{Given, Held, Place};
use crate::world::{ARENAS, GRAPH, NAMES, World};
use stitchpool::Error;

impl World<'_> {
    pub fn set_evictable(&mut self, arena: usize, refuge: Option<Store>) {
        let arena = arena % GRAPH;
        match self.pool.set_evictable(self.arenas[arena], refuge.map(|refuge| self.backup(refuge))) {
            Ok(()) => self.evictable[arena] = refuge.is_some(),
            Err(Error::Backup(_)) => assert!(matches!(refuge, Some(Store::Discard)), "content is to be kept"),
            Err(error) => panic!("{error}"),
        }
    }

    /// A buffer without memory whose stream is gone will never have any.
    pub fn is_over(&self, held: &Held) -> bool {
        held.cells.is_empty() && self.lanes[held.owner].end.is_some()
    }

    /// Of the arenas that have a name, one that has nothing in it is made anew.
    pub fn dissolve(&mut self, arena: usize) {
        let arena = arena % ARENAS;
        let of_arena = || self.blocks.values().filter(|held| held.arena == arena);
        let (is_used, is_named) = (of_arena().any(|held| !self.is_over(held)), of_arena().next().is_some());
        match self.pool.dissolve(self.arenas[arena]) {
            Ok(()) => {
                assert!(!is_used && !NAMES[arena].is_empty(), "arena {arena} is in use");
                self.arenas[arena] = self.pool.arena(NAMES[arena]).unwrap();
                (self.asked[arena], self.asleep[arena]) = (Given::new(), false);
                if arena < GRAPH {
                    self.evictable[arena] = false;
                }
            }
            Err(error @ Error::InUse { .. }) => assert!(is_named || arena == 0 || arena >= GRAPH, "{error}"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Learns which blocks the last step has put out: all of a block, and none that may not be.
    pub fn find_evicted(&mut self) {
        let may = |arena: usize| arena < GRAPH && self.evictable[arena] && !self.asleep[arena];
        let is_awake = |id: &u64| self.blocks[id].cells.values().all(|cell| !cell.asleep);
        let exclusive = self.blocks.iter().filter(|(_, held)| held.live && held.kind == Kind::Exclusive);
        let candidates: Vec<u64> = exclusive.map(|(&id, _)| id).filter(is_awake).collect();
        for id in candidates {
            let block = self.blocks[&id].block;
            let segments = self.pool.segments(block.address, block.bytes).unwrap();
            let here_bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
            if here_bytes == block.bytes {
                continue;
            }
            assert_eq!(here_bytes, 0, "a part of the block at {} was put out", block.address);
            assert!(may(self.blocks[&id].arena), "the block at {} was put out", block.address);
            let places: Vec<Place> = self.blocks[&id].cells.keys().map(|&offset| (id, offset)).collect();
            self.demand_free(&places);
            let held = self.blocks.get_mut(&id).unwrap();
            held.evicted = true;
            held.cells.values_mut().for_each(|cell| cell.asleep = true);
        }
    }
}
