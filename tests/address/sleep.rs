//! Suspend and resume.

use crate::rig::{HERE, Rig};
use stitchpool::driver::{Address, DeviceId, Link, RawStream};
use stitchpool::{ArenaId, Backup, Pool, Request, Scope, Settings, StreamId};

fn keeping() -> Settings {
    Settings { backup_keep_bytes: u64::MAX, poison: false, ..Settings::default() }
}

/// Blocks of an arena, each filled with its number.
fn filled(rig: &Rig, pool: &Pool, ids: (StreamId, RawStream), arena: ArenaId, sizes: &[u64]) -> Vec<Address> {
    let request = |&bytes: &u64| pool.alloc(&Request::new(bytes, ids.0).in_arena(arena)).unwrap().address;
    let blocks: Vec<Address> = sizes.iter().map(request).collect();
    for ((&at, &bytes), seed) in blocks.iter().zip(sizes).zip(0..) {
        rig.fill(ids.1, at, bytes, seed);
    }
    blocks
}

fn verify(rig: &Rig, stream: RawStream, blocks: &[Address], sizes: &[u64]) {
    for ((&at, &bytes), seed) in blocks.iter().zip(sizes).zip(0..) {
        rig.verify(stream, at, bytes, seed);
    }
    rig.finish(stream);
    rig.assert_right();
}

pub(crate) fn suspend_and_resume_bring_every_word_back_and_cost_about_a_copy(rig: &Rig) {
    let total = 8 * rig.gib;
    let (down_ms, up_ms) = rig.copy_ms(HERE, DeviceId::HOST, total);
    for (layout, sizes) in [("one block", vec![total]), ("16 blocks", vec![total / 16; 16])] {
        let pool = rig.pool(keeping());
        let stream = rig.stream(HERE);
        let id = pool.register(stream).unwrap();
        let arena = pool.arena("weights").unwrap();
        let blocks = filled(rig, &pool, (id, stream), arena, &sizes);
        let handles = pool.segments(blocks[0], sizes[0]).unwrap();
        rig.finish(stream);
        let mut best = (f64::INFINITY, f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for cycle in 0..4 {
            let (suspend_ms, done) = Rig::timed(|| pool.suspend(Scope::Arena(arena), &Backup::Host).unwrap());
            assert_eq!(done.backup_bytes, total);
            // The first copies may make the driver take some memory of its own.
            let own_bytes = if cycle == 0 && rig.driver.name() == "cuda" { 64 << 20 } else { 0 };
            assert!(done.not_yet_visible_bytes <= own_bytes, "{done:?} in cycle {cycle}");
            let (resume_ms, done) = Rig::timed(|| pool.resume(Scope::Arena(arena)).unwrap());
            assert_eq!(done.restored_bytes, total);
            verify(rig, stream, &blocks, &sizes);
            if cycle > 0 {
                best = (best.0.min(suspend_ms), best.1.min(resume_ms), best.2, best.3);
            }
        }
        // The mapping work alone.
        for _ in 0..3 {
            let (off_ms, _) = Rig::timed(|| pool.suspend(Scope::Arena(arena), &Backup::Discard).unwrap());
            let (on_ms, _) = Rig::timed(|| pool.resume(Scope::Arena(arena)).unwrap());
            best = (best.0, best.1, best.2.min(off_ms), best.3.min(on_ms));
        }
        let (suspend_ms, resume_ms, off_ms, on_ms) = best;
        rig.say(&format!(
            "8 GiB in {layout}, handles of {} MiB: suspend {suspend_ms:.1} ms = {:.3} x the copy of {down_ms:.1}; resume \
             {resume_ms:.1} ms = {:.3} x the copy of {up_ms:.1}; mapping alone {off_ms:.1} + {on_ms:.1} ms",
            handles[0].bytes >> 20,
            suspend_ms / down_ms,
            resume_ms / up_ms,
        ));
        blocks.iter().for_each(|&at| pool.free(at).unwrap());
        pool.retire(id).unwrap();
        drop(pool);
        rig.end(stream);
    }
}

pub(crate) fn a_hundred_cycles_leave_nothing_behind(rig: &Rig) {
    let pool = rig.pool(keeping());
    let stream = rig.stream(HERE);
    let id = pool.register(stream).unwrap();
    let arena = pool.arena("weights").unwrap();
    let sizes = [rig.gib / 2, rig.gib / 4, rig.gib / 8 + 512];
    let blocks = filled(rig, &pool, (id, stream), arena, &sizes);
    let mut free_bytes = Vec::new();
    for _ in 0..100 {
        pool.suspend(Scope::Arena(arena), &Backup::Host).unwrap();
        free_bytes.push(rig.free_bytes(HERE));
        pool.resume(Scope::Arena(arena)).unwrap();
    }
    verify(rig, stream, &blocks, &sizes);
    let later = &free_bytes[1..];
    let (least, most) = (*later.iter().min().unwrap(), *later.iter().max().unwrap());
    rig.say(&format!("free while suspended, from the second of 100 cycles on: {least} to {most} bytes"));
    assert!(most - least <= rig.granule(), "{least} to {most}");
    blocks.iter().for_each(|&at| pool.free(at).unwrap());
    pool.retire(id).unwrap();
    drop(pool);
    rig.end(stream);
}

pub(crate) fn a_backup_on_a_peer_costs_about_a_copy_over_the_link(rig: &Rig) {
    let Some(&peer) = rig.devices().get(1).filter(|&&peer| rig.driver.link(HERE, peer).unwrap() != Link::None) else {
        return rig.say("no peer: skipped");
    };
    let total = 8 * rig.gib;
    let (down_ms, up_ms) = rig.copy_ms(HERE, peer, total);
    let pool = rig.pool(keeping());
    let stream = rig.stream(HERE);
    let id = pool.register(stream).unwrap();
    let arena = pool.arena("weights").unwrap();
    let sizes = [total / 2, total / 2];
    let blocks = filled(rig, &pool, (id, stream), arena, &sizes);
    let mut best = (f64::INFINITY, f64::INFINITY);
    for cycle in 0..4 {
        let (suspend_ms, _) = Rig::timed(|| pool.suspend(Scope::Arena(arena), &Backup::Peer(peer)).unwrap());
        let (resume_ms, _) = Rig::timed(|| pool.resume(Scope::Arena(arena)).unwrap());
        verify(rig, stream, &blocks, &sizes);
        if cycle > 0 {
            best = (best.0.min(suspend_ms), best.1.min(resume_ms));
        }
    }
    rig.say(&format!(
        "8 GiB to a peer: suspend {:.1} ms = {:.2} of the copy's bandwidth, resume {:.1} ms = {:.2} of it",
        best.0,
        down_ms / best.0,
        best.1,
        up_ms / best.1
    ));
    blocks.iter().for_each(|&at| pool.free(at).unwrap());
    pool.retire(id).unwrap();
    drop(pool);
    rig.end(stream);
}
