"""Listeners: functions that hear of memory before it leaves and after it came back."""

import gc
import threading
import weakref

import pytest
import stitchpool

MIB = 1 << 20


def test_a_listener_hears_of_its_own_memory(pool):
    heard = []
    weights, cache = pool.arena("weights"), pool.arena("cache")
    blocks = [pool.alloc(4 * MIB, arena=arena) for arena in (weights, cache)]
    before, after = (lambda found: heard.append(("before", found)), lambda found: heard.append(("after", found)))
    with pool.listen(before, after, weights):
        cache.suspend()
        cache.resume()
        assert heard == []
        weights.suspend()
        weights.resume()
    weights.suspend()
    weights.resume()
    assert [what for what, _ in heard] == ["before", "after"]
    for _, segments in heard:
        assert sum(segment.bytes for segment in segments) == 4 * MIB
        assert segments[0].address == blocks[0].address
    for block in blocks:
        block.free()


def test_a_listener_that_raises_keeps_the_memory_where_it_is(pool):
    def before(_):
        raise RuntimeError("a transfer is under way")

    block = pool.alloc(4 * MIB, exclusive=True)
    with pool.listen(before, of=block) as listener:
        with pytest.raises(stitchpool.Vetoed, match="a transfer is under way"):
            block.suspend()
        assert pool.stats().suspended_bytes == 0
        memoryview(block)[:1] = b"x"
        listener.close()
        block.suspend()
    block.resume()
    block.free()


def test_a_listener_may_use_the_pool_and_others_run_on_meanwhile(pool):
    """Another thread asks for bytes while a listener is told: it is refused, and waits for nobody."""
    block, other = pool.alloc(4 * MIB, exclusive=True), pool.alloc(4 * MIB)
    refused = []

    def look():
        try:
            memoryview(other)
        except BufferError as error:
            refused.append(str(error))

    def before(_):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(60)
        pool.alloc(512).free()
        assert pool.stats().live_blocks == 2

    with pool.listen(before, lambda _: pool.alloc(512).free(), (block.address, 4 * MIB)):
        block.suspend()
        block.resume()
    assert len(refused) == 1 and "leaving its address" in refused[0]
    memoryview(other).release()
    block.free()
    other.free()


def test_a_listener_in_a_cycle_goes_with_it():
    class Owner:
        pass

    pool, owner = stitchpool.Pool("host", capacity=64 * MIB), Owner()
    owner.listener = pool.listen(lambda _, owner=owner: None)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
    pool.close()
