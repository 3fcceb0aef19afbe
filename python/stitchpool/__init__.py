"""One address range over every GPU, and a memory pool on it that never fragments.

    import stitchpool

    pool = stitchpool.Pool("host")
    with pool.alloc(10 << 20) as block:
        print(block.address, pool.stats().live_bytes)

`stitchpool.torch` is for PyTorch and is imported only on request.
"""

import json as _json
import os as _os
import threading as _threading
import weakref as _weakref
from collections.abc import Mapping as _Mapping
from typing import Any as _Any
from typing import Literal as _Literal
from typing import Optional as _Optional

from . import _native
from ._native import (
    Arena,
    Block,
    Capture,
    Exporter,
    Growable,
    Hold,
    Import,
    Importer,
    Lease,
    Listener,
    Offer,
    Pin,
    Placement,
    Pool,
    Stream,
    View,
    __version__,
)
from .errors import (
    Asleep,
    CalledOff,
    Capturing,
    Closed,
    DriverError,
    Error,
    Gone,
    InUse,
    InvalidRequest,
    NoRights,
    OutOfMemory,
    SharingError,
    TooMany,
    Unavailable,
    UnknownDevice,
    UnknownPointer,
    UnknownStream,
    Unreachable,
    Vetoed,
)
from .figures import DeviceStats, Holdings, Migrated, Resumed, Segment, Shortage, Stats, Suspended, Trimmed

HOST = -1
"""The host as a place for memory, where a device is asked for."""


def replay(path: "str | _os.PathLike[str]", driver: str = "auto", **settings: _Any) -> "dict[str, _Any]":
    """Plays a recorded run through a pool: what `stitchpool replay --json` prints, as a dict.

    `path` is a PyTorch memory snapshot (.pickle, also packed as .gz, .xz or .zst) or an RMM log (.csv).
    `settings` are those of the command: `devices`, `capacity` (bytes, "8GiB", or "1.02x" the run's own
    peak), `spill`, `scale`, `repeat`, `check`, `lag_ms`, `pace`. Raises InvalidRequest with what is wrong.
    """
    figures: "dict[str, _Any]" = _json.loads(_native.replay(path, driver, **settings))
    return figures


_importers: "_weakref.WeakValueDictionary[tuple[_Any, ...], Importer]" = _weakref.WeakValueDictionary()
_importing = _threading.Lock()


def import_ticket(
    ticket: bytes,
    rights: "_Optional[_Mapping[int, _Literal['none', 'read', 'read_write']]]" = None,
    driver: "_Literal['auto', 'cuda', 'host']" = "auto",
    *,
    watch: bool = True,
    patience: float = 10.0,
    **settings: _Any,
) -> Import:
    """Maps the memory that another process of this user has exported: `pool.export(...).ticket` there.

    rights: what devices of this process may do with it; the device it lies on may read it.
    watch: whether a thread hears of recalls and of the other process's end, so that the memory goes then.
    patience: seconds that an answer may take. `settings` are those of `Pool` for the host driver.
    Raises Gone for a stale ticket, UnknownDevice for a device that is not seen here, NoRights, CalledOff,
    SharingError.
    """
    # One importer an exporter, so that the same ticket twice is one import.
    key = (ticket[16:32], driver, _os.getpid(), tuple(sorted(settings.items())))
    with _importing:
        importer = _importers.get(key)
        if importer is None:
            importer = Importer(ticket, driver, patience=patience, **settings)
            _importers[key] = importer
    if watch:
        importer.watch()
    return importer.open(ticket, rights)


def library() -> str:
    """The path of the library with the C interface; `stitchpool.h` lies beside it.

    It is this package's own library, so that C callers, Python and PyTorch share one pool a process.
    """
    return _native.__file__


__all__ = [
    "__version__",
    "Arena",
    "Asleep",
    "Block",
    "CalledOff",
    "Capture",
    "Capturing",
    "Closed",
    "DeviceStats",
    "DriverError",
    "Error",
    "Exporter",
    "Gone",
    "Growable",
    "Hold",
    "Holdings",
    "HOST",
    "Import",
    "import_ticket",
    "Importer",
    "InUse",
    "InvalidRequest",
    "Lease",
    "library",
    "Listener",
    "Migrated",
    "NoRights",
    "Offer",
    "OutOfMemory",
    "Pin",
    "Placement",
    "Pool",
    "replay",
    "Resumed",
    "Segment",
    "SharingError",
    "Shortage",
    "Stats",
    "Stream",
    "Suspended",
    "TooMany",
    "Trimmed",
    "Unavailable",
    "UnknownDevice",
    "UnknownPointer",
    "UnknownStream",
    "Unreachable",
    "Vetoed",
    "View",
]
