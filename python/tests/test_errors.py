"""Refusals: which exception, which words, which facts."""

import pickle

import pytest
import stitchpool

MIB = 1 << 20


def test_out_of_memory_says_what_holds_the_rest():
    with stitchpool.Pool("host", capacity=64 * MIB) as pool:
        with pool.alloc(40 * MIB):
            with pytest.raises(stitchpool.OutOfMemory) as refused:
                pool.alloc(30 * MIB)
        error = refused.value
        assert isinstance(error, MemoryError) and isinstance(error, stitchpool.Error)
        assert (error.device, error.asked_bytes, error.status) == (0, 30 * MIB, "OUT_OF_MEMORY")
        assert error.missing_bytes == 6 * MIB
        (holdings,) = error.devices
        assert (holdings.live_bytes, holdings.limit_bytes) == (40 * MIB, 64 * MIB)
        assert f"asked for {30 * MIB} bytes" in str(error)


@pytest.mark.parametrize("bytes, alignment", [(0, 512), (512, 3), (512, 1 << 40), (2**64 - 1, 512)])
def test_requests_that_cannot_be_are_told_before_anything_is_tried(pool, bytes, alignment):
    with pytest.raises(stitchpool.InvalidRequest) as refused:
        pool.alloc(bytes, alignment=alignment)
    assert isinstance(refused.value, ValueError) and str(bytes if alignment == 512 else alignment) in str(refused.value)


def test_a_negative_size_is_no_size(pool):
    with pytest.raises((OverflowError, stitchpool.InvalidRequest)):
        pool.alloc(-13_128_960)


def test_unknown_things_are_told_apart(pool):
    with pytest.raises(stitchpool.UnknownPointer):
        pool.free(0x1234)
    with pytest.raises(stitchpool.UnknownPointer):
        pool.segments(0x1234)
    with pytest.raises(stitchpool.UnknownDevice):
        pool.alloc(512, device=5)
    with pytest.raises(stitchpool.UnknownDevice):
        pool.alloc(512, place=stitchpool.Placement.home(3))
    with pytest.raises(stitchpool.Error):
        pool.alloc(512, stream=0xDEAD)


def test_a_second_free_is_told(pool):
    block = pool.alloc(512)
    block.free()
    for again in (block.free, block.segments, lambda: block.record_use(0)):
        with pytest.raises(stitchpool.UnknownPointer, match="freed already"):
            again()


def test_a_part_beyond_a_block_is_told(pool):
    with pool.alloc(512) as block:
        with pytest.raises(stitchpool.InvalidRequest):
            pool.segments(block, 513)


def test_an_error_changes_nothing(pool):
    before = pool.stats()
    for wrong in (lambda: pool.alloc(0), lambda: pool.free(1), lambda: pool.alloc(1 << 40)):
        with pytest.raises(stitchpool.Error):
            wrong()
    after = pool.stats()
    assert (after.live_bytes, after.physical_bytes, after.allocs) == (before.live_bytes, before.physical_bytes, 0)


def test_errors_and_figures_are_plain_data(pool):
    assert pickle.loads(pickle.dumps(pool.stats())) == pool.stats()
    assert str(pickle.loads(pickle.dumps(stitchpool.InUse("words")))) == "words"
