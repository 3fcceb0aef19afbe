//! Suspend and resume.

use crate::rig::{HERE, Phases, Rig};
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

/// The fastest of some cycles, and the mapping work alone.
struct Cycles {
    bytes: u64,
    suspend: Phases,
    resume: Phases,
    off_ms: f64,
    on_ms: f64,
    handle_bytes: u64,
}

/// Suspends and resumes blocks of these sizes; the first cycle, which makes the trays, is not counted.
fn cycles(rig: &Rig, settings: Settings, sizes: &[u64], backup: &Backup) -> Cycles {
    let pool = rig.pool(settings);
    let stream = rig.stream(HERE);
    let id = pool.register(stream).unwrap();
    let arena = pool.arena("weights").unwrap();
    let total: u64 = sizes.iter().sum();
    let blocks = filled(rig, &pool, (id, stream), arena, sizes);
    let handle_bytes = pool.segments(blocks[0], sizes[0]).unwrap()[0].bytes;
    rig.finish(stream);
    let mut best: Option<(Phases, Phases)> = None;
    for cycle in 0..4 {
        let suspend = rig.phases(|| {
            let done = pool.suspend(Scope::Arena(arena), backup).unwrap();
            assert_eq!(done.backup_bytes, total);
            // The first copies may make the driver take some memory of its own.
            let own_bytes = if cycle == 0 && rig.driver.name() == "cuda" { 64 << 20 } else { 0 };
            assert!(done.not_yet_visible_bytes <= own_bytes, "{done:?} in cycle {cycle}");
        });
        let resume = rig.phases(|| {
            assert_eq!(pool.resume(Scope::Arena(arena)).unwrap().restored_bytes, total);
        });
        verify(rig, stream, &blocks, sizes);
        best = match best {
            Some((down, up)) => Some((down.faster(suspend), up.faster(resume))),
            None if cycle == 0 => {
                rig.say(&format!("first suspend, trays are made: {:.1} ms: {}", suspend.all_ms, suspend.words()));
                None
            }
            None => Some((suspend, resume)),
        };
    }
    let (mut off_ms, mut on_ms) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..3 {
        off_ms = off_ms.min(Rig::timed(|| pool.suspend(Scope::Arena(arena), &Backup::Discard).unwrap()).0);
        on_ms = on_ms.min(Rig::timed(|| pool.resume(Scope::Arena(arena)).unwrap()).0);
    }
    blocks.iter().for_each(|&at| pool.free(at).unwrap());
    pool.retire(id).unwrap();
    drop(pool);
    rig.end(stream);
    let (suspend, resume) = best.unwrap();
    Cycles { bytes: total, suspend, resume, off_ms, on_ms, handle_bytes }
}

/// Says how the cycles compare with one plain copy, there and back.
fn compare(rig: &Rig, what: &str, cycles: &Cycles, copy_ms: (f64, f64)) {
    let (gib, handle_mib) = (cycles.bytes / rig.gib, cycles.handle_bytes >> 20);
    for (name, phases, copy_ms) in [("suspend", &cycles.suspend, copy_ms.0), ("resume", &cycles.resume, copy_ms.1)] {
        rig.say(&format!(
            "{gib} GiB {what}, handles of {handle_mib} MiB: {name} {:.1} ms = {:.3} x the copy of {copy_ms:.1} ms = {:.2} of \
             its bandwidth; ms (calls): {}",
            phases.all_ms,
            phases.all_ms / copy_ms,
            copy_ms / phases.all_ms,
            phases.words(),
        ));
    }
    rig.say(&format!("  mapping alone, off and on: {:.1} + {:.1} ms", cycles.off_ms, cycles.on_ms));
}

pub(crate) fn suspend_and_resume_bring_every_word_back_and_cost_about_a_copy(rig: &Rig) {
    let total = 8 * rig.gib;
    let copy_ms = rig.copy_ms(HERE, DeviceId::HOST, total);
    for (layout, sizes) in
        [("in one block to the host", vec![total]), ("in 16 blocks to the host", vec![total / 16; 16])]
    {
        compare(rig, layout, &cycles(rig, keeping(), &sizes, &Backup::Host), copy_ms);
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
    let copy_ms = rig.copy_ms(HERE, peer, total);
    for (layout, sizes) in [
        ("in one block to a peer", vec![total]),
        ("in two blocks to a peer", vec![total / 2; 2]),
        ("in 16 blocks to a peer", vec![total / 16; 16]),
    ] {
        compare(rig, layout, &cycles(rig, keeping(), &sizes, &Backup::Peer(peer)), copy_ms);
    }
    // While copies run over the link every unmap and every change of rights waits for some of them: few large
    // handles, which a block this size gets where they are allowed, are what helps.
    let large = Settings { handle_bytes_max: 256 << 20, ..keeping() };
    let copy_ms = rig.copy_ms(HERE, peer, 4 * total);
    compare(rig, "in one block to a peer", &cycles(rig, large, &[4 * total], &Backup::Peer(peer)), copy_ms);
}
