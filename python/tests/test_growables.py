"""Growable buffers: a fixed address, with memory where it is asked for."""

import ctypes

import pytest
import stitchpool

MIB = 1 << 20


def test_a_buffer_grows_and_gives_back_its_middle_at_one_address(pool):
    with pool.growable(1024 * MIB, 4 * MIB, step_bytes=2 * MIB) as cache:
        address = cache.address
        assert (cache.max_bytes, cache.step_bytes, cache.backed()) == (1024 * MIB, 2 * MIB, [(0, 4 * MIB)])
        ctypes.memset(address, ord("a"), 4 * MIB)
        cache.grow_to(8 * MIB)
        cache.back(512 * MIB, 2 * MIB)
        assert cache.backed() == [(0, 8 * MIB), (512 * MIB, 514 * MIB)]
        assert cache.give_back(4 * MIB, 2 * MIB) == 2 * MIB
        assert cache.backed() == [(0, 4 * MIB), (6 * MIB, 8 * MIB), (512 * MIB, 514 * MIB)]
        assert cache.backed_bytes == 8 * MIB == pool.stats().live_bytes
        assert ctypes.string_at(address + 4 * MIB - 1, 1) == b"a" and cache.address == address
        assert sum(segment.bytes for segment in cache.segments(0, 4 * MIB)) == 4 * MIB
        with pool.stream() as other:
            cache.record_use(0, 2 * MIB, other)
            other.finish()
    assert pool.stats().live_bytes == 0


def test_a_refusal_backs_nothing(pool):
    cache = pool.growable(1024 * MIB)
    with pytest.raises(stitchpool.OutOfMemory) as refused:
        cache.grow_to(512 * MIB)
    assert refused.value.asked_bytes == 512 * MIB and cache.backed() == []
    with pytest.raises(stitchpool.InvalidRequest, match="maximum"):
        cache.grow_to(1025 * MIB)
    with pytest.raises(stitchpool.InvalidRequest):
        cache.back(1, 2 * MIB)
    with pytest.raises(stitchpool.InvalidRequest, match="back it first"):
        cache.segments(0, 2 * MIB)
    cache.close()
    cache.close()
    with pytest.raises(stitchpool.InvalidRequest, match="ended already"):
        cache.grow_to(2 * MIB)
    assert "ended" in repr(cache)


def test_a_pool_is_not_closed_under_a_buffer(pool):
    cache = pool.growable(64 * MIB)
    with pytest.raises(stitchpool.InUse, match="growables: 1"):
        pool.close()
    del cache
    pool.close()
