"""Pools: blocks come and go, figures, placement, threads, ends."""

import gc
import os
import threading
import time
import weakref

import pytest
import stitchpool

MIB = 1 << 20


def test_a_block_comes_and_goes(pool):
    block = pool.alloc(1000)
    assert (block.bytes, block.device, block.stream, block.freed) == (1024, 0, 0, False)
    assert block.address % 512 == 0
    assert pool.holds(block.address + 1023) and not pool.holds(block.address + 1024)
    assert pool.stats().live_bytes == 1024
    block.free()
    assert block.freed and pool.stats().live_bytes == 0


def test_a_block_is_freed_at_the_end_of_its_with_and_with_its_last_reference(pool):
    with pool.alloc(MIB) as block:
        assert pool.stats().live_blocks == 1
    assert block.freed
    block = pool.alloc(MIB)
    assert pool.stats().live_blocks == 1
    del block
    gc.collect()
    assert pool.stats().live_blocks == 0


def test_a_block_freed_inside_its_with_is_freed_once(pool):
    with pool.alloc(MIB) as block:
        block.free()
    assert pool.stats().frees == 1


def test_the_figures_tell_kinds_of_bytes_apart(pool):
    kept, gone = pool.alloc(64 * MIB), pool.alloc(64 * MIB)
    gone.free()
    stats = pool.stats()
    (device,) = stats.devices
    assert (device.live_bytes, device.free_bytes, device.pending_bytes) == (64 * MIB, 64 * MIB, 0)
    known = device.live_bytes + device.free_bytes + device.pending_bytes
    known += device.stranded_bytes + device.quarantined_bytes
    assert known == device.physical_bytes == stats.physical_bytes
    assert (stats.allocs, stats.frees, stats.hits + stats.misses) == (2, 1, 2)
    assert device.physical_peak_bytes == 128 * MIB
    kept.free()


def test_trim_gives_back_what_is_free(pool):
    pool.alloc(64 * MIB).free()
    trimmed = pool.trim(wait=True)
    assert trimmed == stitchpool.Trimmed(released_bytes=64 * MIB, waiting_bytes=0)
    assert pool.stats().physical_bytes == 0
    assert pool.trim().released_bytes == 0


def test_figures_are_told_to_prometheus(pool):
    block = pool.alloc(2 * MIB)
    lines = pool.prometheus("trainer").splitlines()
    assert 'stitchpool_held_bytes{pool="trainer",device="0",state="live"} 2097152' in lines
    assert 'stitchpool_allocs_total{pool="trainer"} 1' in lines
    block.free()


def test_a_block_may_lie_on_several_devices():
    with stitchpool.Pool("host", devices=range(2), capacity=64 * MIB) as pool:
        place = stitchpool.Placement.round_robin(0, 1, stripe_bytes=4 * MIB)
        block = pool.alloc(16 * MIB, place=place, readers=[1])
        segments = pool.segments(block)
        assert segments == block.segments()
        devices = {segment.address - block.address: segment.device for segment in segments}
        assert [devices[stripe * 4 * MIB] for stripe in range(4)] == [0, 1, 0, 1]
        assert sum(segment.bytes for segment in segments) == block.bytes
        assert pool.picture().split() == [f"{block.address:#x}", "AABBAABB"]
        (inner,) = pool.segments(block.address + 5 * MIB, 512)
        assert (inner.device, inner.offset_bytes) == (1, MIB)
        block.free()


@pytest.mark.parametrize(
    "place, devices",
    [
        (stitchpool.Placement.home(1), [1]),
        (stitchpool.Placement.spill(1, 0), [1]),
        (stitchpool.Placement.weighted([(0, 1), (1, 3)]), [0, 1]),
        (stitchpool.Placement.shards([(1, 2 * MIB), (0, 6 * MIB)]), [1, 0]),
    ],
)
def test_every_placement_can_be_asked_for(place, devices):
    with stitchpool.Pool("host", devices=range(2), capacity=64 * MIB) as pool:
        with pool.alloc(8 * MIB, place=place) as block:
            assert list(dict.fromkeys(segment.device for segment in block.segments())) == devices


def test_memory_freed_on_its_own_stream_is_reused_at_once(pool):
    with pool.stream() as stream:
        first = pool.alloc(8 * MIB, stream=stream)
        address = first.address
        first.free()
        second = pool.alloc(8 * MIB, stream=stream)
        assert second.address == address and second.stream == stream.cuda_stream
        second.record_use(0)
        second.free(stream=0)
        stream.finish()


def test_streams_are_numbers_or_what_has_one(pool):
    class Torch:
        cuda_stream = 0

    class Protocol:
        def __cuda_stream__(self):
            return (0, 0)

    for stream in (None, 0, Torch(), Protocol()):
        pool.alloc(512, stream=stream).free()
    for wrong in ("main", 1.5, object()):
        with pytest.raises((stitchpool.InvalidRequest, TypeError)):
            pool.alloc(512, stream=wrong)


def test_settings_reach_the_pool():
    granule = 64 << 10
    with stitchpool.Pool("host", capacity=8 * granule, granule=granule, handle_bytes_max=granule) as pool:
        blocks = [pool.alloc(granule) for _ in range(8)]
        with pytest.raises(stitchpool.OutOfMemory):
            pool.alloc(granule)
        del blocks
    for wrong in ({"size": 1}, {"wait_max": -1.0}, {"handle_kind": "file"}):
        with pytest.raises(stitchpool.InvalidRequest):
            stitchpool.Pool("host", **wrong)
    with pytest.raises(stitchpool.InvalidRequest):
        stitchpool.Pool("opencl")


def test_a_pool_may_have_a_thread_of_its_own():
    def threads():
        return len(os.listdir("/proc/self/task"))

    before = threads()
    with stitchpool.Pool("host", capacity=64 * MIB):
        assert threads() == before
    with stitchpool.Pool("host", capacity=64 * MIB, background_thread=True) as pool:
        assert threads() == before + 1
        blocks = [pool.alloc(2 * MIB) for _ in range(8)]
        del blocks[::2]
        # Stitched from what four of them had.
        pool.alloc(8 * MIB).free()
        blocks.clear()
    begun = time.monotonic()
    while threads() > before:  # the system takes note of an end a moment later
        assert time.monotonic() < begun + 10
        time.sleep(0.001)


def test_the_interpreter_runs_on_during_a_wait():
    """A call of the pool that takes time is no time that other threads of Python stand still."""
    with stitchpool.Pool("host", capacity=64 * MIB) as pool:
        inside, go_on = threading.Event(), threading.Event()

        def relief(_):
            inside.set()
            go_on.wait(30)
            return False

        pool.on_shortage(relief)
        failed = []

        def ask():
            try:
                pool.alloc(64 * MIB)
            except stitchpool.OutOfMemory as error:
                failed.append(error)

        with pool.alloc(MIB):
            thread = threading.Thread(target=ask)
            thread.start()
            assert inside.wait(30)
            # The other thread is inside the pool; this one uses Python and the pool.
            pool.alloc(512).free()
            assert pool.stats().live_blocks == 1
            go_on.set()
            thread.join(30)
        assert len(failed) == 1


def test_many_threads_share_a_pool(pool):
    wrong = []

    def work(seed):
        held = []
        for step in range(300):
            block = pool.alloc((seed * 7919 + step * 104729) % (256 << 10) + 1)
            view = memoryview(block)
            view[:] = bytes([seed]) * len(view)
            held.append((block, view))
            if len(held) > 8:
                block, view = held.pop(step % 8)
                if view[0] != seed or view[-1] != seed:
                    wrong.append(block)
                view.release()
                block.free()
        for _, view in held:
            view.release()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong and pool.stats().live_blocks == 0


def test_a_pool_closes_only_when_nothing_is_live():
    pool = stitchpool.Pool("host")
    block = pool.alloc(512)
    with pytest.raises(stitchpool.InUse, match="1 blocks of 512 bytes"):
        pool.close()
    block.free()
    pool.close()
    pool.close()
    with pytest.raises(stitchpool.Closed, match="closed already"):
        pool.alloc(512)


def test_blocks_keep_their_pool():
    pool = stitchpool.Pool("host")
    block, gone = pool.alloc(512), weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is not None
    memoryview(block)[:4] = b"here"
    block.free()
    del block
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("held", ["pool", "block", "stream"])
def test_a_pool_that_its_own_callback_holds_can_go(held):
    pool = stitchpool.Pool("host")
    thing = {"pool": lambda: pool, "block": lambda: pool.alloc(512), "stream": pool.stream}[held]()
    pool.on_shortage(lambda _: thing and False)
    gone = weakref.ref(pool)
    del pool, thing
    gc.collect()
    assert gone() is None


def test_auto_says_why_it_is_not_cuda():
    pool = stitchpool.Pool(capacity=64 * MIB)
    assert (pool.driver == "host") == (pool.why_host is not None)
    if pool.driver == "cuda":
        pytest.skip("there is a GPU here")
    with pytest.raises(stitchpool.Unavailable) as refused:
        stitchpool.Pool("cuda")
    assert str(refused.value) == pool.why_host


def test_an_allocation_takes_microseconds(pool):
    """A rough bound, so that nobody puts something slow into the way by mistake."""
    start = time.perf_counter()
    for _ in range(2000):
        pool.alloc(4096).free()
    assert (time.perf_counter() - start) / 2000 < 500e-6
