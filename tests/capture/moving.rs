//! Memory that leaves its addresses: who is told, who may forbid it, and what a graph finds after.

use crate::rig::{Application, GRANULE, Rig, Stream};
use crate::tight;
use std::sync::{Arc, Mutex};
use stitchpool::driver::DeviceId;
use stitchpool::{Backup, Error, Interest, Listener, Pin, Request, Scope, Segment};

/// Holds a pin while its memory is there, as a registration does; refuses if it shall.
struct Card {
    rig: Arc<Rig>,
    pin: Mutex<Option<Pin>>,
    heard: Mutex<Vec<(&'static str, u64)>>,
    refuses: bool,
}

impl Card {
    fn new(rig: &Arc<Rig>, pin: Option<Pin>, refuses: bool) -> Arc<Self> {
        let card = Self { rig: rig.clone(), pin: Mutex::new(pin), heard: Mutex::default(), refuses };
        let card = Arc::new(card);
        rig.pool.listen(card.clone(), Interest::Pool).unwrap();
        card
    }

    fn hear(&self, what: &'static str, segments: &[Segment]) {
        let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        self.heard.lock().unwrap().push((what, bytes / GRANULE));
    }

    fn heard(&self) -> Vec<(&'static str, u64)> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

impl Listener for Card {
    fn before_leave(&self, segments: &[Segment]) -> Result<(), String> {
        self.hear("leaves", segments);
        if self.refuses {
            return Err("a transfer is under way".into());
        }
        self.pin.lock().unwrap().take();
        Ok(())
    }

    fn after_return(&self, segments: &[Segment]) {
        self.hear("returns", segments);
        let (at, bytes) = (segments[0].at, segments[0].bytes);
        *self.pin.lock().unwrap() = self.rig.pool.pin(at, bytes).ok();
    }
}

/// A graph of two blocks, of which one is free again.
fn captured(rig: &Rig, stream: &Stream) -> (stitchpool::driver::host::HostGraph, stitchpool::Block) {
    rig.begin(stream, rig.arena("graph"));
    let (kept, passing) = (rig.block(stream, 2), rig.block(stream, 3));
    rig.read(stream, &passing, stream);
    rig.free(&passing);
    (rig.end(stream), kept)
}

#[test]
fn a_graphs_arena_sleeps_and_wakes_with_all_of_its_addresses() {
    let rig = tight(16);
    let a = rig.stream(0);
    let arena = rig.arena("graph");
    let (graph, kept) = captured(&rig, &a);
    rig.host.launch(a.raw, &graph).unwrap();
    for scope in [Scope::Arena(arena), Scope::All] {
        let slept = rig.pool.suspend(scope, &Backup::Host).unwrap();
        assert_eq!(slept.released_bytes, 5 * GRANULE, "what is free in it too");
        rig.pool.trim_and_wait().unwrap();
        rig.pool.check().unwrap();
        rig.pool.resume(scope).unwrap();
        rig.read(&a, &kept, &a);
        rig.host.launch(a.raw, &graph).unwrap();
        rig.host.run_all();
        rig.host.assert_clean();
    }
    rig.free(&kept);
    rig.pool.release_graph(arena).unwrap();
    rig.pool.trim_and_wait().unwrap();
    rig.pool.check().unwrap();
}

#[test]
fn what_a_graph_leaves_asleep_needs_no_memory() {
    let rig = tight(16);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    let (graph, kept) = captured(&rig, &a);
    rig.host.launch(a.raw, &graph).unwrap();
    rig.pool.suspend(Scope::Arena(arena), &Backup::Host).unwrap();
    // Its memory would wait for all that may be a replay, but while it sleeps there is none.
    let busy = rig.block(&b, 1);
    rig.free(&kept);
    rig.pool.release_graph(arena).unwrap();
    rig.host.outside(DeviceId(0), 15 * GRANULE).unwrap();
    rig.pool.resume(Scope::Arena(arena)).unwrap();
    rig.free(&busy);
    rig.host.outside(DeviceId(0), 0).unwrap();
    rig.pool.dissolve(arena).unwrap();
    rig.over();
}

#[test]
fn nothing_moves_while_a_capture_is_open() {
    let rig = tight(16);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    let block = rig.pool.alloc(&Request::new(2 * GRANULE, b.id).exclusive()).unwrap();
    rig.pool.begin_capture(a.id, arena).unwrap();
    for driver_knows in [false, true] {
        if driver_knows {
            rig.host.begin_capture(a.raw).unwrap();
        }
        for scope in [Scope::All, Scope::Arena(arena), Scope::Block(block.address)] {
            assert!(matches!(rig.pool.suspend(scope, &Backup::Discard), Err(Error::Capturing { .. })));
        }
    }
    rig.end(&a);
    rig.pool.suspend(Scope::Block(block.address), &Backup::Discard).unwrap();
    rig.pool.resume(Scope::All).unwrap();
    rig.pool.resume(Scope::Block(block.address)).unwrap();
    rig.free(&block);
    rig.pool.release_graph(arena).unwrap();
    rig.pool.trim_and_wait().unwrap();
}

#[test]
fn listeners_hear_of_what_leaves_and_returns() {
    let rig = Arc::new(tight(16));
    let a = rig.stream(0);
    let block = rig.pool.alloc(&Request::new(3 * GRANULE, a.id).exclusive()).unwrap();
    let other = rig.pool.alloc(&Request::new(3 * GRANULE, a.id).exclusive()).unwrap();
    let pin = rig.pool.pin(block.address, GRANULE).unwrap();
    let card = Card::new(&rig, Some(pin), false);
    rig.pool.suspend(Scope::Block(block.address), &Backup::Host).unwrap();
    assert_eq!(card.heard(), [("leaves", 3)]);
    rig.pool.resume(Scope::Block(block.address)).unwrap();
    assert_eq!(card.heard(), [("returns", 3)]);
    assert!(card.pin.lock().unwrap().is_some(), "registered again");
    rig.pool.exchange(Scope::Block(block.address), Scope::Block(other.address)).unwrap();
    assert_eq!(card.heard(), [("leaves", 6), ("returns", 6)]);
    card.pin.lock().unwrap().take();
    [block, other].iter().for_each(|block| rig.free(block));
    rig.pool.check().unwrap();
}

#[test]
fn a_veto_or_a_pin_forbids_it_and_nothing_has_changed() {
    let rig = Arc::new(tight(16));
    let a = rig.stream(0);
    let block = rig.pool.alloc(&Request::new(3 * GRANULE, a.id).exclusive()).unwrap();
    rig.host.fill(a.raw, block.address, block.bytes, 7);
    let scope = Scope::Block(block.address);
    let before = rig.pool.segments(block.address, block.bytes).unwrap();
    let pin = rig.pool.pin(block.address, GRANULE).unwrap();
    let pinned = rig.pool.suspend(scope, &Backup::Host);
    assert!(matches!(pinned, Err(Error::InUse { why, .. }) if why.contains("pinned")));
    let calm = Card::new(&rig, None, false);
    assert!(rig.pool.suspend(scope, &Backup::Host).is_err(), "the pin is not the card's");
    assert_eq!(calm.heard(), [("leaves", 3), ("returns", 3)]);
    calm.pin.lock().unwrap().take();
    drop(pin);
    let stubborn = Card::new(&rig, None, true);
    assert!(matches!(rig.pool.suspend(scope, &Backup::Host), Err(Error::Vetoed { .. })));
    assert_eq!((calm.heard(), stubborn.heard()), (vec![("leaves", 3), ("returns", 3)], vec![("leaves", 3)]));
    assert_eq!(rig.pool.segments(block.address, block.bytes).unwrap(), before);
    rig.host.verify(a.raw, block.address, block.bytes, 7);
    calm.pin.lock().unwrap().take();
    rig.free(&block);
    rig.host.run_all();
    rig.host.assert_clean();
    rig.pool.check().unwrap();
}
