"""A process of its own with stitchpool behind torch's bindings, on the host driver: no GPU is needed."""

import ctypes
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import torch  # noqa: E402
from backend_source import backend as source  # noqa: E402

backend = source()

MIB = 1 << 20
GRANULE = 2 * MIB


def pretended():
    """The shim with the test in CUDA's place."""
    return backend.build.shim(HERE / "surroundings_pretended.cpp", flags=("-Werror",))


def start(devices=1, capacity_bytes=64 * MIB, **options):
    """Installs the backend and gives the functions of surroundings_pretended.cpp."""
    shim_path = pretended()
    backend.install(
        os.environ.get("STITCHPOOL_LIBRARY"),
        driver="host",
        host_devices=devices,
        host_capacity_bytes=capacity_bytes,
        shim_path=shim_path,
        **options,
    )
    shim = ctypes.PyDLL(str(shim_path))
    for name in ("pretend_stream", "pretend_allocate", "pretend_base"):
        getattr(shim, name).restype = ctypes.c_void_p
    shim.pretend_largest.restype = ctypes.c_size_t
    shim.pretend_pairs.restype = shim.pretend_pool_pairs.restype = ctypes.c_double
    shim.pretend_init(devices)
    return Pretended(shim)


class Pretended:
    def __init__(self, shim):
        self.shim = shim

    def current(self, stream=0, device=0):
        self.shim.pretend_current(device, ctypes.c_void_p(stream))

    def stream(self, device=0):
        return self.shim.pretend_stream(device)

    def alloc(self, size):
        """An address, or None for out of memory."""
        return self.shim.pretend_allocate(ctypes.c_size_t(size))

    def free(self, address):
        self.shim.pretend_delete(ctypes.c_void_p(address))

    def record_stream(self, address, stream, device=0):
        self.shim.pretend_record_stream(ctypes.c_void_p(address), device, ctypes.c_void_p(stream))

    def capturing(self, stream, is_so):
        self.shim.pretend_capturing(ctypes.c_void_p(stream), int(is_so))

    def busy(self, stream, is_so):
        self.shim.pretend_busy(ctypes.c_void_p(stream), int(is_so))

    def pool(self, verb, key, *more):
        return getattr(self.shim, f"pretend_{verb}")(ctypes.c_uint64(key[0]), ctypes.c_uint64(key[1]), *more)

    def begin(self, key, stream=0):
        self.pool("begin", key, ctypes.c_void_p(stream))

    @staticmethod
    def stats(device=0):
        return flat(torch._C._cuda_memoryStats(device))


def flat(nested, prefix=""):
    figures = {}
    for name, value in nested.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict):
            figures.update(flat(value, path))
        else:
            figures[path] = value
    return figures


def current(stats, name, side="all"):
    return stats[f"{name}.{side}.current"]


def sharing():
    """stitchpool.torch, where the backend is that of the installed package; else there is nobody to share with."""
    return sys.modules.get("stitchpool.torch")


def write(address, size, value):
    ctypes.memset(address, value, size)


def reads(address, size, value):
    return ctypes.string_at(address, size) == bytes([value]) * size
