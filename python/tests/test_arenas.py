"""Arenas and blocks whose memory leaves its address and comes back."""

import pytest
import stitchpool

MIB = 1 << 20


def test_an_arena_sleeps_and_wakes_with_its_bytes(pool, tmp_path):
    weights = pool.arena("weights")
    blocks = [pool.alloc(8 * MIB, arena=weights) for _ in range(3)]
    other = pool.alloc(8 * MIB)
    for number, block in enumerate(blocks):
        with memoryview(block) as view:
            view[:] = bytes([number + 1]) * len(view)
    addresses = [block.address for block in blocks]
    for backup in (None, "host", tmp_path):
        done = weights.suspend(backup)
        assert not done.already and done.released_bytes >= 24 * MIB
        (device,) = pool.stats().devices
        assert (device.suspended_bytes, device.live_bytes) == (24 * MIB, 8 * MIB)
        assert weights.suspend().already
        assert memoryview(other).nbytes == 8 * MIB
        with pytest.raises(stitchpool.Asleep):
            memoryview(blocks[0])
        assert weights.resume().restored_bytes == 24 * MIB
        assert weights.resume().already
        for number, block in enumerate(blocks):
            with memoryview(block) as view:
                assert view[0] == view[-1] == number + 1
    assert [block.address for block in blocks] == addresses
    assert pool.arena("weights").number == weights.number != pool.arena("cache").number
    for block in [*blocks, other]:
        block.free()


def test_f55_suspended_bytes_are_told_apart_and_are_not_held(pool):
    cache = pool.arena("cache")
    block = pool.alloc(64 * MIB, arena=cache)
    before = pool.stats().devices[0]
    cache.suspend("discard")
    (asleep,) = pool.stats().devices
    assert before.physical_bytes - asleep.physical_bytes == 64 * MIB == asleep.suspended_bytes
    assert asleep.live_bytes <= asleep.physical_bytes <= asleep.limit_bytes
    cache.resume()
    assert pool.stats().devices[0].suspended_bytes == 0
    block.free()


def test_f12_a_block_may_be_freed_while_it_sleeps(pool):
    weights = pool.arena("weights")
    gone, kept = pool.alloc(8 * MIB, arena=weights), pool.alloc(8 * MIB, arena=weights)
    memoryview(kept)[:4] = b"kept"
    weights.suspend()
    gone.free()
    with pytest.raises(stitchpool.UnknownPointer):
        gone.free()
    weights.resume()
    assert bytes(memoryview(kept)[:4]) == b"kept"
    kept.free()


def test_an_exclusive_block_sleeps_and_moves_alone():
    with stitchpool.Pool("host", devices=range(2), capacity=64 * MIB) as pool:
        alone, shared = pool.alloc(8 * MIB, exclusive=True, readers=[1]), pool.alloc(8 * MIB)
        memoryview(alone)[:5] = b"alone"
        alone.suspend(1)
        assert pool.stats().devices[1].backup_bytes >= 8 * MIB
        alone.resume()
        assert alone.migrate(1).moved_bytes == 8 * MIB
        assert {segment.device for segment in alone.segments()} == {1}
        assert bytes(memoryview(alone)[:5]) == b"alone"
        with pytest.raises(stitchpool.InvalidRequest, match="exclusive"):
            shared.suspend()
        alone.free()
        shared.free()


def test_memory_stays_while_somebody_looks_at_it(pool):
    weights = pool.arena("weights")
    block = pool.alloc(8 * MIB, arena=weights)
    view = memoryview(block)
    with pytest.raises(BufferError, match="1 views"):
        weights.suspend()
    view.release()
    weights.suspend()
    weights.resume()
    block.free()


def test_what_cannot_be_is_told(pool):
    weights = pool.arena("weights")
    with pytest.raises(stitchpool.InvalidRequest, match="host"):
        weights.suspend("cloud")
    with stitchpool.Pool("host", capacity=64 * MIB) as other:
        with pytest.raises(stitchpool.InvalidRequest, match="another pool"):
            other.alloc(512, arena=weights)
    with pytest.raises(stitchpool.InvalidRequest, match="speed"):
        pool.alloc(512, speed=2)
