"""Named parts of a process's tensors, which sleep, wake and move together."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Optional

import torch

from .. import _native
from .._native import Arena as PoolArena
from ..errors import Error
from ..figures import Migrated, Resumed, Suspended
from . import part, process

_known: "dict[str, Arena]" = {}
_lock = threading.Lock()


class Arena:
    """An arena of the pool of the process, for tensors: see `arena`."""

    def __init__(self, name: str) -> None:
        self._arena: PoolArena = _native.process_pool().arena(name)
        # PyTorch's own cache stands in between: memory of one arena must not come to another by it.
        self._part: Optional[torch.cuda.MemPool] = None if process.enabled() else part.mem_pool()

    @property
    def name(self) -> str:
        return self._arena.name

    @contextlib.contextmanager
    def use(self, device: part.Device = None) -> Iterator["Arena"]:
        """What this thread allocates on a device inside the `with` belongs to the arena."""
        before = _native.enter_arena(self._arena.number)
        try:
            if self._part is None:
                yield self
            else:
                with part.use_mem_pool(self._part, device):
                    yield self
        finally:
            _native.enter_arena(before)

    def suspend(self, backup: Any = None) -> Suspended:
        """Gives the memory of its tensors back; they must not be used until `resume`. See `stitchpool.Arena`."""
        return self._arena.suspend(backup)

    def resume(self) -> Resumed:
        """Takes memory under the same addresses, with the same bytes."""
        return self._arena.resume()

    def migrate(self, device: int) -> Migrated:
        """Moves its memory to a device; the tensors' addresses stay."""
        return self._arena.migrate(device)


def arena(name: str) -> Arena:
    """The arena of this name: `with stitchpool.torch.arena("weights").use(): ...`, then `suspend` and `resume`."""
    if process.enabled() == "full":
        raise Error("the full backend has a pool of its own, whose arenas are not reached from here yet")
    with _lock:
        if name not in _known:
            _known[name] = Arena(name)
        return _known[name]
