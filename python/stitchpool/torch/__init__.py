"""PyTorch's memory from a stitchpool pool.

For the whole process, before anything touches the GPU:

    import stitchpool.torch
    stitchpool.torch.enable()

For a part of it:

    with stitchpool.torch.use_mem_pool(stitchpool.torch.mem_pool()):
        weights = torch.empty(1 << 30, device="cuda")

What is in an arena sleeps and wakes together, under the same addresses:

    with stitchpool.torch.arena("weights"):
        model = Model().cuda()
    stitchpool.torch.suspend("weights")
    ...
    stitchpool.torch.resume("weights")

All use one pool of the process, `pool()`, which stays until the process ends. A device gets a CUDA context
only when memory is asked for there. In the child of a fork the pool is closed: start children with "spawn".
"""

from .._native import last_refusal, unknown_frees
from .arena import Arena, arena, resume, suspend
from .part import Bypassed, mem_pool, use_mem_pool
from .process import enable, enabled
from .process_pool import configure, pool

__all__ = [
    "Arena",
    "arena",
    "Bypassed",
    "configure",
    "enable",
    "enabled",
    "last_refusal",
    "mem_pool",
    "pool",
    "resume",
    "suspend",
    "unknown_frees",
    "use_mem_pool",
]
