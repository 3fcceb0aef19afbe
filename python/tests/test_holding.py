"""Views, leases and pins: what holds blocks and their memory in place."""

import ctypes

import pytest
import stitchpool

MIB = 1 << 20


def test_a_view_shows_parts_of_blocks_in_a_row(pool):
    prefix, tail = pool.alloc(4 * MIB, exclusive=True), pool.alloc(2 * MIB, exclusive=True)
    memoryview(prefix)[-1:] = b"p"
    memoryview(tail)[:1] = b"t"
    with pool.view([prefix, (tail.address, 2 * MIB)], {0: "read"}) as view:
        assert view.bytes == 6 * MIB and view.address not in (prefix.address, tail.address)
        assert ctypes.string_at(view.address + 4 * MIB - 1, 2) == b"pt"
        assert sum(segment.bytes for segment in view.segments()) == 6 * MIB
        view.record_use(None)
        prefix.free()
        tail.free()
        assert (pool.stats().kept_bytes, pool.stats().live_blocks) == (6 * MIB, 0)
        with pytest.raises(stitchpool.InUse, match="views: 1"):
            pool.close()
    assert pool.stats().kept_bytes == 0


def test_a_view_is_of_whole_blocks_of_its_own_pool(pool):
    shared = pool.alloc(512)
    with pytest.raises(stitchpool.InvalidRequest, match="whole handles"):
        pool.view([(shared.address, 512)], {0: "read"})
    with pytest.raises(stitchpool.InvalidRequest, match="everything"):
        pool.view([shared], {0: "everything"})
    with pytest.raises(stitchpool.InvalidRequest, match="parts of blocks"):
        pool.view([pool.arena("a")], {0: "read"})
    with stitchpool.Pool("host", capacity=64 * MIB) as other:
        with pytest.raises(stitchpool.InvalidRequest, match="another pool"):
            other.view([shared], {0: "read"})
    shared.free()


def test_a_lease_keeps_a_freed_block_until_its_work_is_launched(pool):
    block = pool.alloc(4 * MIB, exclusive=True)
    with pool.stream() as stream:
        with pool.lease(block) as lease:
            assert (lease.address, lease.bytes) == (block.address, 4 * MIB)
            with pytest.raises(stitchpool.InUse, match="leases, views or exports"):
                block.suspend()
            block.free()
            assert pool.stats().kept_bytes == 4 * MIB
            lease.end(stream)
            with pytest.raises(stitchpool.InvalidRequest, match="ended already"):
                lease.record_use(stream)
    assert pool.stats().kept_bytes == 0
    with pytest.raises(stitchpool.UnknownPointer):
        pool.lease(block.address)


def test_pinned_memory_stays_when_it_is_free(pool):
    block = pool.alloc(4 * MIB, exclusive=True)
    with pool.pin(block) as pin:
        assert (pin.address, pin.bytes) == (block.address, 4 * MIB)
        block.free()
        pool.trim(wait=True)
        stats = pool.stats()
        assert stats.pinned_bytes == stats.devices[0].pinned_bytes == stats.physical_bytes == 4 * MIB
    pool.trim(wait=True)
    assert (pool.stats().pinned_bytes, pool.stats().physical_bytes) == (0, 0)


def test_what_is_held_ends_with_its_last_reference(pool):
    block = pool.alloc(4 * MIB, exclusive=True)
    held = [pool.lease(block), pool.pin(block), pool.view([block], {0: "read"})]
    block.free()
    with pytest.raises(stitchpool.InUse, match="leases: 1, views: 1, pins: 1"):
        pool.close()
    del held
    pool.close()


def test_the_child_of_a_fork_lets_go_of_nothing(runs):
    said = runs(
        """
        import os, stitchpool
        pool = stitchpool.Pool("host", capacity=64 << 20)
        block = pool.alloc(4 << 20, exclusive=True)
        held = [pool.lease(block), pool.view([block], {0: "read"}), pool.growable(8 << 20, 2 << 20)]
        child = os.fork()
        if child == 0:
            try:
                held[2].grow_to(4 << 20)
            except stitchpool.Closed as error:
                print(error, flush=True)
            del held
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert held[2].backed_bytes == 2 << 20
        del held
        block.free()
        pool.close()
        """
    )
    assert "forked from" in said
