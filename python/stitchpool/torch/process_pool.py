"""The pool of the process, as one object for all that name it."""

import threading
from typing import Any, Optional

from .. import _native
from .._native import Pool

_pool: Optional[Pool] = None
_lock = threading.Lock()


def configure(driver: str = "cuda", **settings: Any) -> Pool:
    """Makes the pool of the process with these settings (those of `stitchpool.Pool`), and answers it.

    Without it the pool is made with the defaults when memory is first asked for. Blocks are open to every device
    in use that can reach them, as PyTorch expects, unless `open_to_peers=False`, and a thread of the pool's own takes
    down what moved handles left mapped, unless `background_thread=False`. Raises InUse if it is there.
    """
    global _pool
    with _lock:
        made = Pool(driver, **{"open_to_peers": True, "background_thread": True, **settings})  # type: ignore[arg-type]
        _native.adopt(made)
        _pool = made
        return made


def pool() -> Pool:
    """The pool of the process, whatever of PyTorch's takes memory from it; makes it if it is not there yet."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = _native.process_pool()
        return _pool
