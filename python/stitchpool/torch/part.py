"""A part of a process's tensors in the pool: torch.cuda.MemPool over the library's functions."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any, Optional, Union

import torch

from .. import _native
from ..errors import Error, InUse
from . import plug, process
from .process_pool import pool as pool_of_process

Device = Union[None, int, str, torch.device]

_log = logging.getLogger("stitchpool")
_plug: Any = None
_said = ""


class _Inside(threading.local):
    """The pool that this thread's allocations on a device are routed to."""

    def __init__(self) -> None:
        self.pools: "dict[int, Optional[torch.cuda.MemPool]]" = {}


_inside = _Inside()


class Bypassed(Error):
    """PyTorch took memory for a pool of ours from somewhere else."""


def mem_pool(device: Device = None, *, use_on_oom: bool = False, no_split: bool = False) -> torch.cuda.MemPool:
    """A torch.cuda.MemPool whose segments on one device come from the pool of the process.

    PyTorch ties a MemPool's allocator to the device that is current when it is made; elsewhere it would take plain
    memory, which `use_mem_pool` tells.

    PyTorch cuts its segments into tensors itself, hears record_stream, and serves graphs. When it is out of
    memory the pool's own words go to the log "stitchpool", once PyTorch has given up, and to `last_refusal()`.
    """
    global _plug
    if process.enabled():
        raise InUse("the whole process allocates from stitchpool already: a torch.cuda.MemPool() of its own does it")
    torch.cuda.init()
    if _plug is None:
        _plug = plug.allocator("stitchpool_torch_malloc")
        torch._C._cuda_attach_out_of_memory_observer(_tell)
    with torch.cuda.device(device_index(device)):
        return torch.cuda.MemPool(_plug.allocator(), use_on_oom=use_on_oom, no_split=no_split)


def device_index(device: Device) -> int:
    """The number of a GPU; that of the current one for None."""
    index = device if device is None or isinstance(device, int) else torch.device(device).index
    return torch.cuda.current_device() if index is None else index


@contextlib.contextmanager
def use_mem_pool(pool: torch.cuda.MemPool, device: Device = None) -> Iterator[torch.cuda.MemPool]:
    """Routes this thread's allocations on a device to the pool, as torch.cuda.use_mem_pool does.

    The innermost pool serves, also where PyTorch by itself would ask the outermost first.

    Raises Bypassed at its end if PyTorch took the memory from somewhere else all the same.
    """
    index = device_index(device)
    outer = _inside.pools.get(index)
    if outer is not None:
        torch._C._cuda_endAllocateToPool(index, outer.id)
        torch._C._cuda_releasePool(index, outer.id)
    _inside.pools[index] = pool
    try:
        with torch.cuda.use_mem_pool(pool, index):
            yield pool
    finally:
        _inside.pools[index] = outer
        if outer is not None:
            torch._C._cuda_beginAllocateCurrentThreadToPool(index, outer.id)
    segments = pool.snapshot(include_traces=False)
    ours = pool_of_process()
    foreign = [segment for segment in segments if not ours.holds(segment["address"])]
    if foreign:
        lost = sum(segment["total_size"] for segment in foreign)
        raise Bypassed(
            f"{len(foreign)} of {len(segments)} segments, {lost} bytes, are not from stitchpool: make the pool "
            "with stitchpool.torch.mem_pool(device), for the device that it is used on, and leave expandable_segments out of PYTORCH_ALLOC_CONF"
        )


def _tell(device: int, asked: int, total: int, free: int) -> None:
    """PyTorch has given up: says why the pool refused, if it was the pool."""
    global _said
    words = _native.last_refusal()
    if words and words != _said:
        _said = words
        _log.error("PyTorch is out of memory on device %d; the pool's last refusal: %s", device, words)
