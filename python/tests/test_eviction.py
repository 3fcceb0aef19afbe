"""More addresses than memory: blocks are put out while memory is short, and come back when they are touched."""

import pytest
import stitchpool

GRANULE = 2 << 20


@pytest.fixture
def cold():
    with stitchpool.Pool("host", capacity=4 * GRANULE) as pool:
        yield pool, pool.arena("cold")


def filled(pool, arena, number):
    block = pool.alloc(GRANULE, arena=arena, exclusive=True)
    with memoryview(block) as view:
        view[:] = bytes([number]) * GRANULE
    return block


def asleep(pool):
    return pool.stats().devices[0].suspended_bytes // GRANULE


def test_what_was_not_used_for_longest_is_put_out_and_comes_back_with_its_bytes(cold, tmp_path):
    pool, arena = cold
    for refuge in ("host", tmp_path):
        arena.set_evictable(refuge)
        blocks = [filled(pool, arena, number) for number in range(6)]
        assert asleep(pool) == 2 and pool.stats().evicted_bytes >= 2 * GRANULE
        with pytest.raises(stitchpool.Asleep):
            pool.lease(blocks[0])
        for number, block in enumerate(blocks):
            with pool.touch(block), memoryview(block) as view:
                assert view[0] == view[GRANULE - 1] == number
        for block in blocks:
            block.free()


def test_what_is_leased_stays(cold):
    pool, arena = cold
    arena.set_evictable("host")
    blocks = [filled(pool, arena, number) for number in range(5)]
    leases = [pool.touch(block) for block in blocks[1:]]
    assert pool.stats().devices[0].leased_bytes == 4 * GRANULE
    with pytest.raises(stitchpool.OutOfMemory):
        pool.touch(blocks[0])
    leases.pop().end()
    with pool.touch(blocks[0]) as lease:
        assert lease.address == blocks[0].address and asleep(pool) == 1
    for lease in leases:
        lease.end()
    for block in blocks:
        block.free()


def test_an_arena_is_evictable_until_it_is_told_otherwise(cold):
    pool, arena = cold
    with pytest.raises(stitchpool.InvalidRequest, match="keep their content"):
        arena.set_evictable("discard")
    arena.set_evictable("host")
    arena.set_evictable(None)
    blocks = [filled(pool, arena, number) for number in range(4)]
    with pytest.raises(stitchpool.OutOfMemory):
        pool.alloc(GRANULE)
    assert asleep(pool) == 0
    del blocks
