"""NVIDIA's driver by ctypes: the few calls that the programs here make beside the pool."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_ubyte, c_void_p

CAPTURE_RELAXED = 2


class Cuda:
    """Calls by their name without `cu`; each raises if its answer is not CUDA_SUCCESS."""

    def __init__(self):
        self.raw = ctypes.CDLL("libcuda.so.1")
        self.Init(c_uint(0))

    def __getattr__(self, name):
        function = getattr(self.raw, "cu" + name)

        def call(*arguments):
            result = function(*arguments)
            if result != 0:
                words = ctypes.c_char_p()
                self.raw.cuGetErrorName(c_int(result), byref(words))
                raise RuntimeError(f"cu{name}: {(words.value or b'?').decode()}")

        return call

    def is_active(self, device):
        """Whether the device has a primary context in this process."""
        flags, active = c_uint(), c_int()
        self.DevicePrimaryCtxGetState(c_int(device), byref(flags), byref(active))
        return active.value != 0

    def enter(self, device):
        """Makes the device's primary context current."""
        context = c_void_p()
        self.DevicePrimaryCtxRetain(byref(context), c_int(device))
        self.CtxSetCurrent(context)

    def copy(self, to, origin, size_bytes, stream):
        self.MemcpyDtoDAsync_v2(c_uint64(to), c_uint64(origin), c_size_t(size_bytes), c_void_p(stream))

    def fill(self, at, value, size_bytes, stream):
        self.MemsetD8Async(c_uint64(at), c_ubyte(value), c_size_t(size_bytes), c_void_p(stream))

    def read(self, at, size_bytes):
        found = ctypes.create_string_buffer(size_bytes)
        self.MemcpyDtoH_v2(found, c_uint64(at), c_size_t(size_bytes))
        return found.raw

    def finish(self, stream):
        self.StreamSynchronize(c_void_p(stream))

    def begin_capture(self, stream):
        self.StreamBeginCapture_v2(c_void_p(stream), c_int(CAPTURE_RELAXED))

    def end_capture(self, stream):
        """Ends a capture and answers what can be launched."""
        graph, ready = c_void_p(), c_void_p()
        self.StreamEndCapture(c_void_p(stream), byref(graph))
        self.GraphInstantiateWithFlags(byref(ready), graph, c_uint64(0))
        return graph, ready

    def launch(self, graph, stream):
        self.GraphLaunch(graph[1], c_void_p(stream))

    def end_graph(self, graph):
        self.GraphExecDestroy(graph[1])
        self.GraphDestroy(graph[0])
