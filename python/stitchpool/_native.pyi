from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Optional, Protocol, Union, final

from .figures import Segment, Shortage, Stats, Trimmed

class _CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

AnyStream = Union[int, _CudaStream, _TorchStream, None]
"""The driver's number of a live stream, or what has one; None and 0 are the legacy default stream."""

__version__: str

class Pool:
    """A memory pool over stitched ranges of one or more devices.

    `driver` is "cuda", "host" (memory of this process, without a GPU), or "auto": CUDA where there is a
    GPU, else the host, and `why_host` says why. It is open until it is closed, or until nobody has it or a
    block of it any more. Every call may be made from any thread; the interpreter runs on meanwhile.
    """

    def __new__(
        cls,
        driver: Literal["auto", "cuda", "host"] = "auto",
        *,
        devices: Optional[Iterable[int]] = None,
        capacity: Optional[int] = None,
        granule: Optional[int] = None,
        headroom_bytes: Optional[int] = None,
        handle_bytes_max: Optional[int] = None,
        address_bytes: Optional[int] = None,
        handle_kind: Optional[Literal["private", "file_descriptor", "fabric"]] = None,
        stream_waits: Optional[bool] = None,
        wait_max: Optional[float] = None,
        seal_pause: Optional[float] = None,
        decay: Optional[float] = None,
    ) -> Pool:
        """Makes a pool. What is None is the pool's own default.

        devices: where memory may come from; all that the driver has. The host driver gets as many.
        capacity: the pool holds at most so many bytes of each device.
        granule: the host driver's unit of handles, in bytes; 2 MiB.
        headroom_bytes: forced growth ends so far below the capacity.
        handle_bytes_max: the largest handle; with one granule, whole granules always suffice.
        address_bytes: addresses to reserve.
        handle_kind: how memory may leave the process.
        stream_waits: whether one stream may be made to wait for another's frees.
        wait_max: seconds that the CPU may wait for pending memory before a request fails.
        seal_pause: seconds; a stream's frees are sealed at most this often.
        decay: seconds; memory not needed for so long may be given back.
        """

    @property
    def driver(self) -> Literal["cuda", "host"]: ...
    @property
    def why_host(self) -> Optional[str]:
        """Why "auto" took the host driver; None where it did not."""

    @property
    def handle(self) -> int:
        """The same pool for the C interface: a `stitchpool_pool *`."""

    def alloc(
        self,
        bytes: int,
        device: int = 0,
        stream: AnyStream = None,
        alignment: int = 512,
        *,
        place: Optional[Placement] = None,
        readers: Sequence[int] = (),
    ) -> Block:
        """Allocates a block for work of a live stream of `device`. Its content is undefined.

        place: where its memory shall lie; on the stream's device.
        readers: devices that may use it too.
        Raises OutOfMemory after everything was tried, or InvalidRequest, UnknownDevice, Unreachable.
        """

    def stream(self, device: int = 0) -> Stream:
        """A new stream, for programs that have no others."""

    def free(self, address: int) -> None:
        """Frees a block by its address, in the order of its own stream: for callers that share pools with C."""

    def segments(self, block: Union[Block, int], bytes: Optional[int] = None) -> list[Segment]:
        """Every piece of memory behind a block, or behind `bytes` from an address on."""

    def picture(self) -> str:
        """The address ranges that have memory, one line each: its first address, and one letter a granule.

        A is device 0, B device 1 and so on, h the host; . is where memory was taken away.
        """

    def holds(self, address: int) -> bool:
        """Whether an address lies in a live block of the pool."""

    def stats(self) -> Stats: ...
    def trim(self, wait: bool = False) -> Trimmed:
        """Gives back to the driver what is wholly free and past every stream.

        wait: first until the streams have done what is queued so far, each for `wait_max` at most.
        """

    def on_shortage(self, function: Optional[Callable[[Shortage], Any]]) -> None:
        """Asks `function` before a request fails, instead of the one before; None: nobody.

        It runs on the thread that asked for memory, with no lock of the pool held, and may use the pool. If
        its answer is true, it has freed something and the request is tried again.
        """

    def close(self) -> None:
        """Waits for the streams and gives everything back. Raises InUse while blocks are live."""

    def __enter__(self) -> Pool: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Block:
    """A block: freed when it is told so, when its `with` ends, or when nobody has it any more.

    It is freed in the order of its stream: what is queued there so far may still use it. On the host driver
    `memoryview(block)` shows its bytes; while a view is there it cannot be freed. On CUDA it has
    `__cuda_array_interface__`, as bytes.
    """

    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Its length: the request rounded up to 512."""

    @property
    def device(self) -> int:
        """Its stream's device."""

    @property
    def stream(self) -> int: ...
    @property
    def freed(self) -> bool: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def free(self, stream: AnyStream = None) -> None:
        """Frees it after what is queued so far on its own stream, and on `stream` if that is given."""

    def record_use(self, stream: AnyStream) -> None:
        """It is used on `stream` too: once freed, it is not reused before that use is done."""

    def segments(self) -> list[Segment]: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Block: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Stream:
    """A stream of its own, retired and destroyed when it is closed or nobody has it any more."""

    @property
    def cuda_stream(self) -> int: ...
    @property
    def device(self) -> int: ...
    def __cuda_stream__(self) -> tuple[int, int]: ...
    def finish(self) -> None:
        """Waits until all that is queued on it is done."""

    def close(self) -> None: ...
    def __enter__(self) -> Stream: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Placement:
    """A rule that says on which devices memory shall lie."""

    @staticmethod
    def home(device: int) -> Placement:
        """All of it on one device."""

    @staticmethod
    def spill(*devices: int) -> Placement:
        """On the first of these that has room, the rest on the next, and so on."""

    @staticmethod
    def round_robin(*devices: int, stripe_bytes: int) -> Placement:
        """Stripes of so many bytes (whole granules), dealt to the devices in turn."""

    @staticmethod
    def weighted(weights: Sequence[tuple[int, int]]) -> Placement:
        """One run a device, in proportion to the weights: (device, weight)."""

    @staticmethod
    def shards(pieces: Sequence[tuple[int, int]]) -> Placement:
        """Exactly these runs, in this order: (device, bytes), whole granules."""

def replay(path: Union[str, PathLike[str]], driver: str = "auto", **settings: Any) -> str: ...
def command(words: Sequence[str]) -> int: ...
def adopt(pool: Pool) -> None: ...
def process_pool() -> Pool: ...
def last_refusal() -> str: ...
def unknown_frees() -> int: ...
