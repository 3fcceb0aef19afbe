//! Replays after other memory came and went: they write where the graph was captured, and nowhere else.

use crate::tight;

#[test]
fn replays_touch_nothing_but_their_own_memory() {
    let rig = tight(16);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let kept = rig.block(&a, 2);
    let passing = rig.block(&a, 4);
    rig.read(&a, &passing, &a);
    rig.free(&passing);
    let reused = rig.block(&a, 3);
    rig.read(&a, &reused, &a);
    rig.read(&a, &kept, &a);
    rig.free(&reused);
    let graph = rig.end(&a);
    for round in 0..20 {
        // All that is left is in use, and freed and taken again, on both streams.
        let blocks = [rig.block(&a, 4), rig.block(&b, 6)];
        assert!(rig.is_short(&b, 1), "six of sixteen are the graph's");
        rig.host.launch(if round % 3 == 0 { b.raw } else { a.raw }, &graph).unwrap();
        if round % 4 == 0 {
            rig.pool.trim();
        }
        rig.read(&a, &blocks[0], &a);
        rig.read(&b, &blocks[1], &b);
        blocks.iter().for_each(|block| rig.free(block));
        rig.host.run_all();
        rig.pool.trim_and_wait().unwrap();
    }
    rig.free(&kept);
    rig.host.launch(a.raw, &graph).unwrap();
    rig.pool.release_graph(arena).unwrap();
    rig.over();
}

#[test]
fn a_block_that_outlives_its_graph_stays_until_it_is_freed() {
    let rig = tight(8);
    let (a, b) = (rig.stream(0), rig.stream(0));
    let arena = rig.arena("graph");
    rig.begin(&a, arena);
    let result = rig.block(&a, 6);
    let graph = rig.end(&a);
    rig.host.launch(a.raw, &graph).unwrap();
    rig.pool.release_graph(arena).unwrap();
    assert!(rig.is_short(&b, 3));
    rig.read(&a, &result, &a);
    rig.free(&result);
    let next = rig.block(&b, 8);
    rig.read(&b, &next, &b);
    rig.free(&next);
    rig.over();
}
