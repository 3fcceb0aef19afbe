"""All of a process's tensors in the pool."""

import ctypes
import glob
import importlib
import logging
import os
import sys
import warnings
from typing import Any, Literal, Optional

import torch

from ..errors import Error, InvalidRequest, InUse, Unavailable
from . import plug
from .process_pool import configure, pool

Backend = Literal["full", "pluggable"]

_log = logging.getLogger("stitchpool")
_enabled: Optional[Backend] = None

FULL = "stitchpool.torch.backend"

LOST = (
    "torch.cuda.memory_stats and what builds on it, memory snapshots, torch.cuda.MemPool, CUDA graphs, and "
    "torch.OutOfMemoryError (a refusal is a RuntimeError with the pool's words)"
)


def enabled() -> Optional[Backend]:
    """What all of the process allocates with; None if it is PyTorch's own allocator."""
    full = sys.modules.get(FULL)
    return "full" if full is not None and full.is_installed() else _enabled


def enable(
    backend: Literal["auto", "full", "pluggable"] = "auto",
    *,
    capacity: Optional[int] = None,
    headroom_bytes: Optional[int] = None,
    handle_bytes_max: Optional[int] = None,
    stream_waits: Optional[bool] = None,
    wait_max: Optional[float] = None,
    background_thread: Optional[bool] = None,
) -> Backend:
    """Makes the pool the allocator of all that PyTorch puts on a GPU, to the end of the process.

    Call it before anything touches the GPU. "full" is a small library that is compiled for this PyTorch when
    it is first used; "pluggable" needs no compiler and lacks what `LOST` says; "auto" is full where that can
    be had, else pluggable with a warning. The settings are those of `stitchpool.Pool`; only that
    the pool has a thread of its own here, unless `background_thread=False`. Answers what it is.
    Raises Error, and nothing has changed, if it cannot be installed: nobody shall believe that it was.
    """
    global _enabled
    if backend not in ("auto", "full", "pluggable"):
        raise InvalidRequest(f"there is no backend {backend!r}: say auto, full or pluggable")
    if enabled() is not None:
        raise InUse(f"stitchpool is PyTorch's allocator already, with the {enabled()} backend")
    if torch.cuda.is_initialized():
        raise InUse("CUDA is initialised already: call enable() before anything touches the GPU")
    settings = {
        "capacity": capacity,
        "headroom_bytes": headroom_bytes,
        "handle_bytes_max": handle_bytes_max,
        "stream_waits": stream_waits,
        "wait_max": wait_max,
        "background_thread": background_thread,
    }
    said = {name: value for name, value in settings.items() if value is not None}
    if backend != "pluggable":
        try:
            importlib.import_module(FULL).install(**said)
        except Exception as error:
            if backend == "full" or _allocator() != "native":
                raise Unavailable(f"the full backend cannot be installed: {error}") from error
            warnings.warn(
                f"stitchpool: the full backend cannot be installed ({error}); the pluggable one lacks {LOST}",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            return "full"
    _install_pluggable(said)
    _enabled = "pluggable"
    return _enabled


def _allocator() -> str:
    return str(torch.cuda.memory.get_allocator_backend())


def _install_pluggable(settings: dict[str, Any]) -> None:
    if _allocator() != "native":
        raise InUse(
            f"PyTorch allocates with {_allocator()!r}, which cannot be replaced: take it out of PYTORCH_ALLOC_CONF"
        )
    allocator = plug.allocator("stitchpool_torch_malloc_or_raise")
    inner = allocator.allocator()
    setters = {
        "set_record_stream_fn": "stitchpool_torch_record_stream",
        "set_reset_fn": "stitchpool_torch_empty_cache",
    }
    for setter, function in setters.items():
        if hasattr(inner, setter):
            getattr(inner, setter)(plug.address_of(function))
    _raise_in_torch()
    # Opened now, so that what is missing is said here and not at the first tensor.
    configure("cuda", **settings) if settings else pool()
    torch.cuda.memory.change_current_allocator(allocator)
    if _allocator() != "pluggable":
        raise Error(f"PyTorch allocates with {_allocator()!r} all the same, and the pool is bypassed")
    if not hasattr(inner, "set_record_stream_fn"):
        warnings.warn(
            "stitchpool: this PyTorch does not tell a pluggable allocator of record_stream: tensors that are used "
            "on a second stream must outlive that use, or their memory is given to others too early",
            RuntimeWarning,
            stacklevel=3,
        )


def _raise_in_torch() -> None:
    """Makes refusals PyTorch's own exceptions: it does not look whether the pluggable allocator gave null."""
    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    found = ctypes.CDLL(library) if glob.glob(library) else None
    check_fail = getattr(found, "_ZN3c106detail14torchCheckFailEPKcS2_jS2_", None)
    if check_fail is None:
        _log.warning("this PyTorch has no c10::detail::torchCheckFail: where memory is refused, tensors are null")
        return
    address = ctypes.cast(check_fail, ctypes.c_void_p)
    ctypes.CDLL(plug.LIBRARY).stitchpool_torch_raise_with(address)
