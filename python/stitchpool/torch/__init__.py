"""PyTorch's memory from a stitchpool pool.

For the whole process, before anything touches the GPU:

    import stitchpool.torch
    stitchpool.torch.enable()

For a part of it:

    with stitchpool.torch.use_mem_pool(stitchpool.torch.mem_pool()):
        weights = torch.empty(1 << 30, device="cuda")

Both use one pool of the process, `pool()`, which stays until the process ends. A device gets a CUDA context
only when memory is asked for there. In the child of a fork the pool is closed: start children with "spawn".
"""

from typing import Any

from .. import _native
from .._native import Pool, last_refusal, unknown_frees
from ..errors import Error
from .mem_pool import Bypassed, mem_pool, use_mem_pool
from .process import enable, enabled

__all__ = [
    "Bypassed",
    "configure",
    "enable",
    "enabled",
    "last_refusal",
    "mem_pool",
    "pool",
    "unknown_frees",
    "use_mem_pool",
]


def configure(driver: str = "cuda", **settings: Any) -> Pool:
    """Makes the pool of the process with these settings (those of `stitchpool.Pool`), and answers it.

    Without it the pool is made with the defaults when memory is first asked for. Raises InUse if it is there.
    """
    made = Pool(driver, **settings)  # type: ignore[arg-type]
    _native.adopt(made)
    return made


def pool() -> Pool:
    """The pool of the process; makes it if it is not there yet."""
    if enabled() == "full":
        raise Error("the full backend has a pool of its own: ask stitchpool.torch.backend.pool_stats()")
    return _native.process_pool()
