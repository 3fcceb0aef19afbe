"""The bytes of blocks, on the host driver."""

import pytest
import stitchpool


def test_the_bytes_of_a_host_block_can_be_written_and_read(pool):
    block = pool.alloc(4096)
    view = memoryview(block)
    assert (view.nbytes, view.readonly, view.format, len(block)) == (4096, False, "B", 4096)
    view[:5] = b"bytes"
    assert bytes(memoryview(block)[:5]) == b"bytes"
    view.release()
    block.free()


def test_a_block_is_not_freed_under_a_view(pool):
    block = pool.alloc(4096)
    view = memoryview(block)
    with pytest.raises(BufferError, match="1 views"):
        block.free()
    with pytest.raises(BufferError):
        with block:
            pass
    view.release()
    block.free()
    with pytest.raises(stitchpool.UnknownPointer):
        memoryview(block)


def test_a_view_keeps_its_block(pool):
    view = memoryview(pool.alloc(4096))
    view[0] = 7
    assert pool.stats().live_blocks == 1
    view.release()
    del view
    assert pool.stats().live_blocks == 0


def test_a_host_block_is_no_memory_of_a_gpu(pool):
    with pool.alloc(512) as block:
        assert not hasattr(block, "__cuda_array_interface__")
