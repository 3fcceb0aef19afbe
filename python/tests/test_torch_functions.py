"""The functions that PyTorch's pluggable allocator calls, without PyTorch: on a host pool, by ctypes.

Each runs in a process of its own, since the pool of a process stays.
"""

import pytest
import stitchpool

BEGIN = """
    import ctypes, stitchpool
    from stitchpool import _native
    library = ctypes.CDLL(stitchpool.library())
    for name in ("stitchpool_torch_malloc", "stitchpool_torch_malloc_or_raise"):
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.stitchpool_torch_free.restype = None
    library.stitchpool_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.stitchpool_torch_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    malloc, free = library.stitchpool_torch_malloc, library.stitchpool_torch_free
"""
POOL = (
    BEGIN
    + """
    pool = stitchpool.Pool("host", capacity=64 << 20, devices=range(2))
    _native.adopt(pool)
"""
)


def test_memory_comes_from_the_processs_pool_and_goes_back(runs):
    runs(
        POOL
        + """
    first, second = malloc(1000, 0, None), malloc(8 << 20, 1, None)
    assert pool.holds(first) and pool.holds(second)
    assert [device.live_bytes for device in pool.stats().devices] == [1024, 8 << 20]
    free(first, 1000, 0, None)
    free(second, 8 << 20, 1, None)
    assert pool.stats().live_blocks == 0
    library.stitchpool_torch_empty_cache()
    assert pool.stats().physical_bytes == 0
    assert _native.process_pool().handle == pool.handle
    """
    )


def test_nothing_is_null_and_null_is_nothing(runs):
    runs(
        POOL
        + """
    assert malloc(0, 0, None) is None
    free(None, 0, 0, None)
    library.stitchpool_torch_record_stream(None, None)
    assert _native.last_refusal() == "" and _native.unknown_frees() == 0
    """
    )


def test_f69_a_refusal_is_null_and_its_own_words_can_be_asked_for(runs):
    runs(
        POOL
        + """
    assert malloc(65 << 20, 0, None) is None
    assert f"asked for {65 << 20} bytes" in _native.last_refusal(), _native.last_refusal()
    assert malloc(512, 7, None) is None
    assert "not one of this pool's devices" in _native.last_refusal(), _native.last_refusal()
    address = malloc(32 << 20, 0, None)
    assert address is not None
    free(address, 32 << 20, 0, None)
    """
    )


def test_f67_what_recovers_is_no_news(runs):
    said = runs(
        POOL
        + """
    held = malloc(60 << 20, 0, None)
    for _ in range(100):
        assert malloc(20_971_520, 0, None) is None
    free(held, 60 << 20, 0, None)
    assert malloc(20_971_520, 0, None)
    """
    )
    assert said == ""


def test_f50_a_free_of_an_unknown_pointer_is_a_line_and_no_more(runs):
    said = runs(
        POOL
        + """
    for _ in range(100):
        free(0x7F0000001000, 512, 0, None)
    assert _native.unknown_frees() == 100
    assert malloc(512, 0, None)
    """
    )
    lines = said.splitlines()
    assert len(lines) == 8 and "0x7f0000001000 is not the address of a live block" in lines[0]
    assert "only counted" in lines[-1]


def test_record_stream_is_heard(runs):
    runs(
        POOL
        + """
    side = pool.stream()
    block = malloc(8 << 20, 0, None)
    library.stitchpool_torch_record_stream(block, side.cuda_stream)
    free(block, 8 << 20, 0, None)
    stats = pool.stats()
    assert stats.live_blocks == 0 and _native.last_refusal() == ""
    assert malloc(512, 0, side.cuda_stream)
    """
    )


def test_the_pool_of_a_process_stays(runs):
    runs(
        POOL
        + """
    import gc
    for close in (pool.close, lambda: pool.__exit__(None, None, None)):
        try:
            close()
        except stitchpool.InUse as refused:
            assert "stays" in str(refused)
        else:
            raise SystemExit("closed")
    try:
        _native.adopt(stitchpool.Pool("host"))
    except stitchpool.InUse as refused:
        assert "already" in str(refused)
    else:
        raise SystemExit("adopted")
    _native.adopt(pool)
    del pool
    gc.collect()
    assert malloc(512, 0, None)
    """
    )


def test_f72_without_a_driver_nothing_is_served_and_the_reason_is_told(runs):
    try:
        stitchpool.Pool("cuda")
    except stitchpool.Unavailable:
        pass
    else:
        pytest.skip("there is a GPU here")
    runs(
        BEGIN
        + """
    assert malloc(512, 0, None) is None
    assert _native.last_refusal()
    try:
        _native.process_pool()
    except stitchpool.Unavailable as refused:
        assert str(refused) == _native.last_refusal()
    else:
        raise SystemExit("served")
    """
    )


def test_f50_the_child_of_a_fork_is_refused_and_frees_in_silence_do_no_harm(runs):
    runs(
        POOL
        + """
    import os
    block = malloc(8 << 20, 0, None)
    child = os.fork()
    if child == 0:
        assert malloc(512, 0, None) is None
        assert "forked from" in _native.last_refusal()
        free(block, 8 << 20, 0, None)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.holds(block)
    """
    )


def test_f50_frees_at_the_very_end_do_no_harm(runs):
    said = runs(
        POOL
        + """
    import atexit
    blocks = [malloc(1 << 20, device, None) for device in (0, 1) for _ in range(4)]
    class Late:
        def __del__(self, free=free, blocks=blocks):
            for block in blocks[4:]:
                free(block, 1 << 20, 0, None)
    late = Late()
    atexit.register(lambda: [free(block, 1 << 20, 0, None) for block in blocks[:4]])
    """
    )
    assert said == ""


def test_a_refusal_is_raised_where_pytorch_does_not_look_for_null(runs, catcher):
    """As c10::detail::torchCheckFail does: the exception passes through the library."""
    runs(
        POOL
        + f"""
    catcher = ctypes.CDLL({catcher!r})
    words = ctypes.create_string_buffer(4096)
    malloc = library.stitchpool_torch_malloc_or_raise
    assert malloc(65 << 20, 0, None) is None
    assert library.stitchpool_torch_raise_with(catcher.fail) == 0
    for round in range(3):
        assert catcher.caught(malloc, ctypes.c_size_t(65 << 20), words) == 1
        assert words.value.decode() == _native.last_refusal() and b"asked for" in words.value
    assert catcher.caught(malloc, ctypes.c_size_t(0), words) == 0
    assert catcher.caught(malloc, ctypes.c_size_t(1 << 20), words) == 2
    assert library.stitchpool_torch_raise_with(None) == 0
    assert malloc(65 << 20, 0, None) is None
    """
    )
