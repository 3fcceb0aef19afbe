"""stitchpool as PyTorch's CUDA allocator, for everything torch allocates on a GPU.

    import stitchpool.torch.backend
    stitchpool.torch.backend.install()   # before anything touches the GPU

Unlike ``torch.cuda.memory.CUDAPluggableAllocator`` it hears ``record_stream``, keeps torch's figures and
memory snapshots, serves CUDA graphs and ``torch.cuda.MemPool``, and refuses with torch's
``OutOfMemoryError``.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from pathlib import Path
from typing import Any

from . import build

__all__ = ["build", "install", "is_installed", "pool_stats"]

_ALL = 2**64 - 1
_DRIVERS = {"cuda": 1, "host": 2}
_WORDS_BYTES = 4096


class _Options(ctypes.Structure):
    """stitchpool_torch_options."""

    _fields_ = [
        ("driver_kind", ctypes.c_int32),
        ("host_devices", ctypes.c_uint32),
        ("host_capacity_bytes", ctypes.c_uint64),
        ("limit_bytes", ctypes.c_uint64),
        ("headroom_bytes", ctypes.c_uint64),
        ("handle_bytes_max", ctypes.c_uint64),
        ("wait_max_us", ctypes.c_uint64),
        ("stream_waits", ctypes.c_int32),
        ("is_said", ctypes.c_int32),
        ("background_thread", ctypes.c_int32),
    ]


_FIGURES = (
    "allocs frees hits misses handles_created handles_released handles_aliased handles_unmapped stale_mappings "
    "stream_waits cpu_waits live_blocks quarantined forced_bytes metadata_bytes physical_bytes live_bytes free_bytes "
    "pending_bytes stranded_bytes quarantined_bytes suspended_bytes backup_bytes pinned_bytes kept_bytes "
    "evictions evicted_bytes returned_bytes"
).split()


class _Stats(ctypes.Structure):
    """stitchpool_stats."""

    _fields_ = [("struct_size", ctypes.c_size_t), *((name, ctypes.c_uint64) for name in _FIGURES)]


# Never closed: torch keeps pointers into it until the process ends.
_shim: ctypes.CDLL | None = None


def install(
    library_path: str | os.PathLike[str] | None = None,
    *,
    capacity: int | None = None,
    headroom_bytes: int | None = None,
    handle_bytes_max: int | None = None,
    wait_max: float | None = None,
    stream_waits: bool | None = None,
    background_thread: bool | None = None,
    driver: str = "cuda",
    host_devices: int = 1,
    host_capacity_bytes: int = 0,
    shim_path: str | os.PathLike[str] | None = None,
) -> None:
    """Makes the pool of the process the allocator of all that torch puts on a GPU, to the process's end.

    Call it once, after ``import torch`` or before, but before anything touches the GPU. The first call on a
    machine compiles the shim, which takes some twenty seconds; later ones find it.

    library_path
        The library with the pool's C interface; by default the one of the Python module, so that there is
        one pool in the process.
    capacity, headroom_bytes, handle_bytes_max, wait_max, stream_waits, background_thread
        The pool's settings, as ``stitchpool.Pool`` takes them, if it is not open yet; it is opened when
        memory is first asked for. It has a thread of its own unless ``background_thread`` is False. ``torch.cuda.memory.set_per_process_memory_fraction`` changes the limit later.
    driver, host_devices, host_capacity_bytes
        ``"host"`` is memory of this process, for tests without a GPU.
    shim_path
        A shim that was compiled elsewhere.

    RuntimeError says why it could not be; nothing has changed then.
    """
    global _shim
    import torch

    if _shim is not None:
        raise RuntimeError("stitchpool: the backend is installed already, once a process")
    if driver not in _DRIVERS:
        raise ValueError(f"driver is {driver!r}: one of {', '.join(sorted(_DRIVERS))}")
    if torch.cuda.is_initialized():
        raise RuntimeError(
            "stitchpool: CUDA is initialised already: call stitchpool.torch.backend.install() before anything "
            "touches the GPU"
        )
    library = os.fspath(library_path) if library_path is not None else _own_library()
    said = (capacity, headroom_bytes, handle_bytes_max, wait_max, stream_waits, background_thread)
    options = _Options(
        is_said=int(driver != "cuda" or any(value is not None for value in said)),
        driver_kind=_DRIVERS[driver],
        host_devices=host_devices,
        host_capacity_bytes=host_capacity_bytes,
        limit_bytes=_ALL if capacity is None else capacity,
        headroom_bytes=headroom_bytes or 0,
        handle_bytes_max=handle_bytes_max or 0,
        wait_max_us=0 if wait_max is None else max(1, round(wait_max * 1e6)),
        stream_waits=int(stream_waits is not False),
        background_thread=int(background_thread is not False),
    )
    shim = ctypes.CDLL(os.fspath(shim_path) if shim_path is not None else str(build.shim()))
    words = ctypes.create_string_buffer(_WORDS_BYTES)
    refused = shim.stitchpool_torch_install(
        library.encode(), ctypes.byref(options), words, ctypes.c_size_t(_WORDS_BYTES)
    )
    if refused:
        raise RuntimeError(words.value.decode(errors="replace"))
    _shim = shim
    backend = torch.cuda.memory.get_allocator_backend()
    if backend != "stitchpool":
        raise RuntimeError(f"stitchpool: torch allocates with {backend!r} all the same, and the pool is bypassed")
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if os.environ.get(name):
            warnings.warn(
                f"stitchpool: {name} is set to {os.environ[name]!r}; it concerns torch's own allocator, which is "
                "not in use",
                stacklevel=2,
            )


def is_installed() -> bool:
    """Whether torch allocates with stitchpool in this process."""
    return _shim is not None


def pool_stats() -> dict[str, Any]:
    """The pool's own figures, over all devices; the bytes that torch's figures have no name for among them."""
    if _shim is None:
        raise RuntimeError("stitchpool: the backend is not installed")
    stats = _Stats(struct_size=ctypes.sizeof(_Stats))
    if _shim.stitchpool_torch_stats(ctypes.byref(stats)) != 0:
        raise RuntimeError("stitchpool: there are no figures before CUDA is initialised")
    return {name: getattr(stats, name) for name in _FIGURES}


def _own_library() -> str:
    import stitchpool._native

    return str(Path(stitchpool._native.__file__))
