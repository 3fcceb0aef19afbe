"""One address range over every GPU, and a memory pool on it that never fragments.

    import stitchpool

    pool = stitchpool.Pool("host")
    with pool.alloc(10 << 20) as block:
        print(block.address, pool.stats().live_bytes)

`stitchpool.torch` is for PyTorch and is imported only on request.
"""

import json as _json
import os as _os
from typing import Any as _Any

from . import _native
from ._native import (
    Arena,
    Block,
    Capture,
    Growable,
    Lease,
    Listener,
    Pin,
    Placement,
    Pool,
    Stream,
    View,
    __version__,
)
from .errors import (
    Asleep,
    Capturing,
    Closed,
    DriverError,
    Error,
    InUse,
    InvalidRequest,
    NoRights,
    OutOfMemory,
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
    "Capture",
    "Capturing",
    "Closed",
    "DeviceStats",
    "DriverError",
    "Error",
    "Growable",
    "Holdings",
    "HOST",
    "InUse",
    "InvalidRequest",
    "Lease",
    "library",
    "Listener",
    "Migrated",
    "NoRights",
    "OutOfMemory",
    "Pin",
    "Placement",
    "Pool",
    "replay",
    "Resumed",
    "Segment",
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
