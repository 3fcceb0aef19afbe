"""Refusals of the pool. Nothing has changed, and the words say the value, the limit and what to do."""

from typing import Optional

from .figures import Holdings


class Error(Exception):
    """Any refusal of this package."""

    status: str
    """The C interface's status, without its prefix: "OUT_OF_MEMORY"."""
    device: Optional[int]
    """The device it was about; None where there is no single one."""
    driver_call: Optional[str]
    """The driver's call and its own words, where the driver refused."""

    def __init__(
        self,
        words: str,
        *,
        status: str = "INVALID_ARGUMENT",
        device: Optional[int] = None,
        driver_call: Optional[str] = None,
    ) -> None:
        super().__init__(words)
        self.status = status
        self.device = device
        self.driver_call = driver_call


class OutOfMemory(Error, MemoryError):
    """Not enough memory, after everything was tried. The words say what holds the rest."""

    asked_bytes: Optional[int]
    missing_bytes: Optional[int]
    devices: tuple[Holdings, ...]
    """What holds the memory of each device that was tried."""

    def __init__(
        self,
        words: str,
        *,
        status: str = "OUT_OF_MEMORY",
        device: Optional[int] = None,
        driver_call: Optional[str] = None,
        asked_bytes: Optional[int] = None,
        missing_bytes: Optional[int] = None,
        devices: tuple[Holdings, ...] = (),
    ) -> None:
        super().__init__(words, status=status, device=device, driver_call=driver_call)
        self.asked_bytes = asked_bytes
        self.missing_bytes = missing_bytes
        self.devices = devices


class InvalidRequest(Error, ValueError):
    """A size, alignment, range, setting or argument that cannot be."""


class UnknownPointer(Error, LookupError):
    """Not the address of a live block of the pool."""


class UnknownStream(Error, LookupError):
    """Not a stream of the pool, or one that was retired."""


class UnknownDevice(Error, LookupError):
    """Not a device of the pool or driver."""


class Unreachable(Error):
    """A device cannot reach the memory of another."""


class NoRights(Error):
    """The stream's device may not use the block."""


class TooMany(Error):
    """A limit on the number of things is reached."""


class InUse(Error):
    """Blocks are live, somebody holds them (another process too), or a call is under way."""


class Closed(Error):
    """The pool was closed, or belongs to the process that this one was forked from."""


class Asleep(Error):
    """The arena or block is suspended."""


class Capturing(Error):
    """A capture forbids it."""


class Vetoed(Error):
    """A listener would not let memory go; the words say what it raised."""


class Gone(Error):
    """The ticket is stale, or imported memory was recalled, or the process that exported it has ended."""


class CalledOff(Error):
    """Not every process of a group could import the memory, so none has."""


class SharingError(Error):
    """Another process or a socket refused; `status` tells them apart."""


class Unavailable(Error):
    """There is no such driver on this machine, or no such part of this package."""


class DriverError(Error):
    """Another refusal of the driver; `status` tells them apart."""
