"""Named parts of a process's tensors, which sleep, wake and move together."""

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Optional

import torch

from .. import _native
from .._native import Arena as PoolArena
from ..errors import InvalidRequest
from ..figures import Migrated, Resumed, Suspended
from . import part, process
from .process_pool import pool

_known: "dict[str, Arena]" = {}
_lock = threading.Lock()


class Arena:
    """An arena of the pool of the process, for tensors: see `arena`."""

    def __init__(self, name: str) -> None:
        self._arena: PoolArena = pool().arena(name)
        # Where PyTorch's own cache stands in between: by device, so that memory of one arena does not come to another.
        self._parts: "dict[int, torch.cuda.MemPool]" = {}
        self._entered = threading.local()

    @property
    def name(self) -> str:
        return self._arena.name

    @contextlib.contextmanager
    def use(self, device: part.Device = None) -> Iterator["Arena"]:
        """What this thread allocates on a device inside the `with` belongs to the arena.

        The innermost arena counts, but a graph's capture and a torch.cuda.MemPool keep what is theirs. Gradients
        are not this thread's: autograd allocates them on threads of its own.
        """
        # What cuBLAS works in is made at its first use and kept for good: made inside, it would sleep with the arena.
        # It cannot be let go before a suspend, as graphs may have captured it.
        if torch.cuda.is_available():
            with torch.cuda.device(part.device_index(device)):
                torch.cuda.current_blas_handle()
        before = _native.enter_arena(self._arena.number)
        try:
            if process.enabled():
                yield self
            else:
                with part.use_mem_pool(self._part(part.device_index(device)), device):
                    yield self
        finally:
            _native.enter_arena(before)

    def _part(self, device: int) -> torch.cuda.MemPool:
        with _lock:
            if device not in self._parts:
                self._parts[device] = part.mem_pool(device)
            return self._parts[device]

    def __enter__(self) -> "Arena":
        use = self.use()
        use.__enter__()
        self._uses().append(use)
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._uses().pop().__exit__(kind, error, trace)

    def suspend(self, backup: Any = None) -> Suspended:
        """Gives the memory of its tensors back; they must not be used until `resume`. See `stitchpool.Arena`."""
        return self._arena.suspend(backup)

    def resume(self) -> Resumed:
        """Takes memory under the same addresses, with the same bytes."""
        return self._arena.resume()

    def migrate(self, device: int) -> Migrated:
        """Moves its memory to a device; the tensors' addresses stay."""
        return self._arena.migrate(device)

    def _uses(self) -> "list[contextlib.AbstractContextManager[Arena]]":
        if not hasattr(self._entered, "uses"):
            self._entered.uses = []
        uses: "list[contextlib.AbstractContextManager[Arena]]" = self._entered.uses
        return uses


def arena(name: str) -> Arena:
    """The arena of this name: `with stitchpool.torch.arena("weights"): ...`, then `suspend` and `resume`."""
    with _lock:
        if name not in _known:
            _known[name] = Arena(name)
        return _known[name]


def suspend(name: str, backup: Any = None) -> Suspended:
    """Gives the memory of an arena's tensors back: see `Arena.suspend`."""
    return _named(name).suspend(backup)


def resume(name: str) -> Resumed:
    """Takes memory for an arena's tensors again: see `Arena.resume`."""
    return _named(name).resume()


def _named(name: str) -> Arena:
    with _lock:
        if name not in _known:
            said = ", ".join(sorted(_known)) or "none"
            raise InvalidRequest(f"there is no arena {name!r} (there is: {said}): stitchpool.torch.arena() makes one")
        return _known[name]
