"""The library's functions as an allocator of PyTorch's."""

import ctypes
from typing import Any

import torch

from .. import _native

LIBRARY = _native.__file__


def allocator(malloc: str) -> Any:
    """A pluggable allocator that stays to the end of the process: PyTorch frees through it until then."""
    plug = torch.cuda.memory.CUDAPluggableAllocator(LIBRARY, malloc, "stitchpool_torch_free")
    for thing in (plug, plug.allocator()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return plug


def address_of(function: str) -> int:
    """Where a function of the library is."""
    found = ctypes.cast(getattr(ctypes.CDLL(LIBRARY), function), ctypes.c_void_p).value
    assert found is not None, function
    return found
