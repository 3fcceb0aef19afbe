"""`stitchpool.torch` where PyTorch is, with or without a GPU. Each runs in a process of its own."""

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed", allow_module_level=True)

HOST = """
    import torch, stitchpool, stitchpool.torch as plug
    pool = plug.configure("host", capacity=64 << 20)
"""


def test_the_pluggable_backend_becomes_pytorchs_allocator(runs):
    runs(
        HOST
        + """
    assert plug.enabled() is None
    assert plug.enable("pluggable") == plug.enabled() == "pluggable"
    assert torch.cuda.memory.get_allocator_backend() == "pluggable"
    assert plug.pool().handle == pool.handle
    try:
        plug.enable("pluggable")
    except stitchpool.InUse as refused:
        assert "already" in str(refused)
    else:
        raise SystemExit("twice")
    """
    )


def test_f72_what_cannot_be_installed_is_an_error_and_no_warning(runs):
    runs(
        """
        import torch, stitchpool, stitchpool.torch as plug
        if not torch.cuda.is_available():
            try:
                plug.enable("pluggable")
            except stitchpool.Unavailable:
                pass
            else:
                raise SystemExit("enabled without a driver")
            assert torch.cuda.memory.get_allocator_backend() == "native" and plug.enabled() is None
        try:
            plug.enable("fast")
        except stitchpool.InvalidRequest as refused:
            assert "auto, full or pluggable" in str(refused)
        else:
            raise SystemExit("fast")
        """
    )


def test_f52_another_allocator_in_the_way_is_told(runs):
    runs(
        HOST
        + """
    assert torch.cuda.memory.get_allocator_backend() == "cudaMallocAsync"
    try:
        plug.enable("pluggable")
    except stitchpool.InUse as refused:
        assert "PYTORCH_ALLOC_CONF" in str(refused)
    else:
        raise SystemExit("bypassed")
    """,
        PYTORCH_ALLOC_CONF="backend:cudaMallocAsync",
    )


def test_without_the_full_backend_auto_says_what_is_lost(runs):
    runs(
        HOST
        + """
    import sys, warnings
    sys.modules["stitchpool.torch.backend"] = None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert plug.enable() == "pluggable"
    words = [str(warning.message) for warning in told if "stitchpool" in str(warning.message)]
    assert len(words) == 1 and "memory_stats" in words[0] and "CUDA graphs" in words[0], words
    try:
        plug.mem_pool()
    except stitchpool.InUse:
        pass
    else:
        raise SystemExit("two ways at once")
    """
    )


def test_full_and_nothing_else_is_an_error_where_it_is_not_there(runs):
    runs(
        HOST
        + """
    import sys
    sys.modules["stitchpool.torch.backend"] = None
    try:
        plug.enable("full")
    except stitchpool.Unavailable as refused:
        assert "full backend" in str(refused)
    else:
        raise SystemExit("full")
    assert torch.cuda.memory.get_allocator_backend() == "native"
    """
    )


def test_f69_a_refusal_is_pytorchs_own_exception_with_the_pools_words(runs, catcher):
    runs(
        HOST
        + f"""
    import ctypes
    from stitchpool.torch.plug import LIBRARY
    plug.enable("pluggable")
    catcher, library = ctypes.CDLL({catcher!r}), ctypes.CDLL(LIBRARY)
    words = ctypes.create_string_buffer(4096)
    assert catcher.caught(library.stitchpool_torch_malloc_or_raise, ctypes.c_size_t(65 << 20), words) == 1
    assert plug.last_refusal().encode() in words.value and b"asked for" in words.value
    """
    )


@pytest.mark.parametrize("leaving", ["", "raise SystemExit(0)", "del pool", "import sys; sys.modules.clear()"])
def test_f50_a_process_with_the_plug_in_ends_well(runs, leaving):
    runs(HOST + f"\n    plug.enable('pluggable')\n    {leaving}\n")


def test_the_package_itself_does_not_import_pytorch(runs):
    runs("import sys, stitchpool\nassert 'torch' not in sys.modules")
