from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Optional, Protocol, Union, final

from .figures import Migrated, Resumed, Segment, Shortage, Stats, Suspended, Trimmed

class _CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

AnyStream = Union[int, _CudaStream, _TorchStream, None]
"""The driver's number of a live stream, or what has one; None and 0 are the legacy default stream."""

AnyBackup = Union[Literal["host", "discard"], int, str, PathLike[str], None]
"""Where content waits: host memory, nowhere, another device, or a directory."""

AnyRights = Mapping[int, Literal["none", "read", "read_write"]]
"""What devices may do with memory."""

AnyScope = Union["Arena", "Block", tuple[int, int], None]
"""An arena, an exclusive block, (address, bytes) of whole handles of one, or all of the pool."""

AnyMemory = Union["Arena", "Block", tuple[int, int], list[Union["Arena", "Block", tuple[int, int]]]]
"""What can be exported: an arena, a block, (address, bytes) of live blocks, or a list of such."""

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
        open_to_peers: Optional[bool] = None,
        backup_keep_bytes: Optional[int] = None,
        poison: Optional[bool] = None,
        background_thread: Optional[bool] = None,
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
        open_to_peers: whether every device that can reach a block's memory may use it, from its first stream on.
        backup_keep_bytes: memory of backups that is kept for the next suspend.
        poison: whether what was discarded comes back as a pattern, so that a reader notices.
        background_thread: whether a thread of the pool's own takes down what moved handles have left mapped.
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
        readers: Optional[Sequence[int]] = None,
        arena: Optional[Arena] = None,
        exclusive: Optional[bool] = None,
    ) -> Block:
        """Allocates a block for work of a live stream of `device`. Its content is undefined.

        place: where its memory shall lie; on the stream's device.
        readers: devices that may use it too.
        arena: an arena of this pool that it belongs to for its life.
        exclusive: whether it has handles of its own, so that it alone can be suspended and moved.
        Raises OutOfMemory after everything was tried, or InvalidRequest, UnknownDevice, Unreachable.
        """

    def arena(self, name: str) -> Arena:
        """The arena of this name, made if there is none yet."""

    def stream(self, device: int = 0) -> Stream:
        """A new stream, for programs that have no others."""

    def growable(
        self,
        max_bytes: int,
        bytes: int = 0,
        device: int = 0,
        stream: AnyStream = None,
        *,
        step_bytes: Optional[int] = None,
        place: Optional[Placement] = None,
        readers: Optional[Sequence[int]] = None,
        arena: Optional[Arena] = None,
    ) -> Growable:
        """Reserves addresses for `max_bytes`, and backs the first `bytes` of them.

        step_bytes: no handle crosses a multiple of it, so multiples of it can always be given back; None: handles
        are as large as the pool makes them.
        """

    def view(self, parts: Sequence[Union[Block, tuple[int, int]]], rights: AnyRights) -> View:
        """A contiguous range over blocks, or (address, bytes) of whole handles, open to the devices of `rights`.

        The blocks stay where they are: one memory, two addresses. It holds them as leases do.
        """

    def export(
        self,
        memory: AnyMemory,
        rights: Literal["read", "read_write"] = "read",
        *,
        ranks: int = 0,
        within: float = 30.0,
    ) -> Offer:
        """Offers live blocks to other processes of this user, who import them by the offer's ticket. A thread of
        this pool answers them from the first call on; `exporter` is for those who want none.

        The pool must have handle_kind="file_descriptor" or "fabric". Whole handles are shared: an exclusive block
        has its own. While it is offered, or somebody has it, it is not suspended, moved or evicted, and a free
        takes effect later. The same memory with the same rights again has the same ticket.
        ranks: so many processes import it all or not at all, 0: each for itself.
        within: seconds that the first of them waits for the last.
        """

    def exporter(self, path: Union[str, PathLike[str], None] = None) -> Exporter:
        """Listens for other processes, at a path or under a name of its own, and answers when it is told to."""

    def lease(self, block: Union[Block, int], device: int = 0) -> Lease:
        """Keeps a block in place until what uses it is launched; it may be freed meanwhile.

        device: that of the streams it is told of, where an address is passed.
        """

    def touch(self, block: Union[Block, int], device: int = 0) -> Lease:
        """The same of a block that may have been put out (see `Arena.set_evictable`): brings it back first, putting
        others out for it if need be, and counts as a use.
        """

    def pin(self, block: Union[Block, int], bytes: Optional[int] = None) -> Pin:
        """Keeps the handles behind a block, or `bytes` from its start on, where they are, also when it is freed."""

    def listen(
        self,
        before: Optional[Callable[[list[Segment]], Any]] = None,
        after: Optional[Callable[[list[Segment]], Any]] = None,
        of: AnyScope = None,
    ) -> Listener:
        """Calls `before` when memory is about to leave its addresses, and `after` when some is there again.

        They run on the thread that moves the memory, with no lock of the pool held, and may use the pool. If
        `before` raises, the operation is refused: Vetoed, with its words. What `after` raises goes to
        `sys.unraisablehook`.
        """

    def capture(self, stream: AnyStream, arena: Arena, device: int = 0) -> Capture:
        """For a `with`: requests of the stream that name no arena are served in `arena`, which is a graph's then.

        Nobody takes its memory before `arena.release_graph()`, also when its blocks are freed. The driver's own
        capture is begun inside or around. If the `with` ends by an exception, no graph has come of it.
        """

    def set_rights(self, rights: AnyRights, of: AnyScope = None) -> None:
        """Sets what these devices may do with memory from now on; the others keep their rights.

        Where a right is lowered it waits for the device's work, and is refused while leases or views hold the
        memory. While a `memoryview` of the pool's blocks is there, it is refused too.
        """

    def exchange(self, one: AnyScope, other: AnyScope) -> None:
        """Exchanges the memory of two exclusive blocks or ranges of the same layout. Nothing is copied."""

    def free(self, address: int) -> None:
        """Frees a block by its address, in the order of its own stream: for callers that share pools with C."""

    def segments(self, block: Union[Block, int], bytes: Optional[int] = None) -> list[Segment]:
        """Every piece of memory behind a block, or behind `bytes` from an address on."""

    def picture(self) -> str:
        """The address ranges that have memory, one line each: its first address, and one letter a granule.

        A is device 0, B device 1 and so on, h the host; . is where memory was taken away.
        """

    def prometheus(self, name: str = "default") -> str:
        """All figures as Prometheus reads them, with `name` as the label `pool`.

        Serve it as `text/plain; version=0.0.4`.
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
    def suspend(self, backup: AnyBackup = None) -> Suspended:
        """As Arena.suspend, for an exclusive block."""

    def resume(self) -> Resumed: ...
    def migrate(self, device: int) -> Migrated:
        """As Arena.migrate, for an exclusive block."""

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
class Arena:
    """A named part of a pool, whose blocks sleep, wake and move together."""

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int:
        """The same arena for the C interface."""

    def suspend(self, backup: AnyBackup = None) -> Suspended:
        """Gives the memory of its blocks back to the driver; their addresses stay. None is "host".

        Waits first for all work of every device that may use them; until it returns, nothing may be queued
        that uses them. They may be freed while they sleep.
        """

    def resume(self) -> Resumed:
        """Takes memory under the same addresses, with the same bytes. On a refusal they sleep on."""

    def migrate(self, device: int) -> Migrated:
        """Moves the memory of its blocks to a device; addresses, rights and bytes stay. What its growable buffers grow
        by later lies there too."""

    def set_evictable(self, refuge: AnyBackup) -> None:
        """From now on its exclusive blocks may be put out to "host", a device or a directory while memory is short,
        those first that were not used for longest; None: no more.

        Uses are the allocation, `Pool.touch`, and the begin and the end of a lease: of the GPU's work the pool sees
        nothing. What leases, views or pins hold stays.
        """

    def release_graph(self) -> None:
        """A graph that was captured here is destroyed. After the last of them it is an ordinary arena again."""

    def dissolve(self) -> None:
        """Forgets it. Raises InUse while it has live blocks or graphs."""

@final
class Growable:
    """A buffer of fixed address with memory where it was asked for; given back when it is closed or with its
    last reference. Offsets and lengths are whole granules; content is undefined where it was newly backed.
    """

    @property
    def address(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def step_bytes(self) -> int: ...
    @property
    def device(self) -> int:
        """Its stream's device."""

    @property
    def backed_bytes(self) -> int: ...
    def backed(self) -> list[tuple[int, int]]:
        """The parts that have memory: (first offset, end), in order."""

    def grow_to(self, bytes: int) -> None:
        """Backs its first `bytes`, rounded up to granules. What is backed stays as it is."""

    def back(self, offset: int, bytes: int) -> None:
        """Backs a part: all of it, or nothing on a refusal."""

    def give_back(self, offset: int, bytes: int) -> int:
        """Gives back what is backed of a part, in the order of its stream; says how many bytes that were."""

    def record_use(self, offset: int, bytes: int, stream: AnyStream) -> None:
        """A part is used on `stream` too: once given back, it is not reused before that use is done."""

    def segments(self, offset: int, bytes: int) -> list[Segment]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Growable: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class View:
    """Memory of parts of blocks under a second, contiguous range of addresses, until it is closed."""

    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def record_use(self, stream: AnyStream, device: int = 0) -> None:
        """Work on a stream of `device` uses it. It has no stream of its own: tell it of every one."""

    def segments(self) -> list[Segment]: ...
    def close(self) -> None: ...
    def __enter__(self) -> View: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Exporter:
    """Offers memory of a pool to other processes of the same user."""

    def export(
        self,
        memory: AnyMemory,
        rights: Literal["read", "read_write"] = "read",
        *,
        ranks: int = 0,
        within: float = 30.0,
    ) -> Offer:
        """As `Pool.export`, to be answered by this exporter."""

    def serve(self) -> None:
        """Answers on a thread of its own from now on."""

    def answer(self, wait: float = 0.0) -> int:
        """Answers until something was answered, for `wait` seconds at most; says how many requests that were."""

    def guests(self) -> list[tuple[int, int, int]]:
        """Who is connected: process, imports, and bytes that these map."""

    def close(self) -> None:
        """Recalls what it offers, and waits a second for those who have it. What they keep then is lost."""

    def __enter__(self) -> Exporter: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Offer:
    """Memory that is offered to other processes, until it is closed."""

    @property
    def ticket(self) -> bytes:
        """256 bytes that another process imports it by; passed on by any means."""

    @property
    def generation(self) -> int:
        """Its number at its exporter, never given again."""

    @property
    def bytes(self) -> int:
        """How long its first part is."""

    def recall(self, within: float = 10.0) -> None:
        """Makes the ticket stale, and waits until all who have imported the memory have let it go.

        Raises InUse after `within` seconds, which names the processes that hold it; it is offered as before then.
        """

    def close(self) -> None:
        """Offers it no longer. Who has imported it is asked to let it go, and its blocks are held until all have."""

    def __enter__(self) -> Offer: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Importer:
    """A connection to the exporter of a ticket, which takes its other tickets too."""

    def __new__(
        cls,
        ticket: bytes,
        driver: Literal["auto", "cuda", "host"] = "auto",
        *,
        patience: float = 10.0,
        **settings: Any,
    ) -> Importer: ...
    @property
    def driver(self) -> Literal["cuda", "host"]: ...
    @property
    def pid(self) -> int:
        """The exporting process, as this one sees it; 0 if it does not."""

    def device_of(self, ticket: bytes) -> int:
        """This process's number of the device that a ticket's memory begins on."""

    def open(self, ticket: bytes, rights: Optional[AnyRights] = None) -> Import:
        """Maps a ticket's memory and opens it to the devices of `rights`; None: the device it lies on may read it."""

    def watch(self) -> None:
        """Hears of recalls and of the exporter's end on a thread of its own from now on."""

    def poll(self, wait: float = 0.0) -> int:
        """The same by a call, for `wait` seconds at most; says how many imports went."""

@final
class Import:
    """Memory of another process that is mapped here, until it is closed, recalled, or its process has ended."""

    @property
    def address(self) -> int:
        """Where the first part begins here. Raises Gone."""

    @property
    def bytes(self) -> int:
        """How long the first part is."""

    @property
    def generation(self) -> int: ...
    @property
    def importer(self) -> Importer: ...
    @property
    def parts(self) -> list[tuple[int, int]]:
        """Address here and length of every part, in the order in which they were offered. Raises Gone."""

    def translate(self, address: int) -> Optional[int]:
        """Where that is here which stands at `address` in the process that exported it. Raises Gone."""

    @property
    def gone(self) -> Optional[str]:
        """Why the memory is gone; None while it is here."""

    def hold(self) -> Hold:
        """Keeps it mapped, whatever its exporter does, while work that uses it is prepared and queued."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def close(self) -> None:
        """Unmaps it, after all work of the devices that it was opened to."""

    def __enter__(self) -> Import: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Hold:
    """Keeps imported memory mapped until it is closed."""

    @property
    def address(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Hold: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Lease:
    """A token that keeps a block in place until it is ended."""

    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def record_use(self, stream: AnyStream) -> None:
        """Work on `stream` uses the block: what is queued there until the lease ends."""

    def end(self, stream: AnyStream = ...) -> None:
        """What it was taken for is queued on `stream` by now; without one, on those it was told of."""

    def __enter__(self) -> Lease: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Pin:
    """Handles that stay where they are until it is closed: whole granules."""

    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Pin: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Listener:
    """Functions that hear of memory that leaves and comes back, until it is closed or nobody has it any more."""

    def close(self) -> None: ...
    def __enter__(self) -> Listener: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

@final
class Capture:
    """A capture of one stream: the inside of a `with`."""

    @property
    def arena(self) -> Arena: ...
    def __enter__(self) -> Capture: ...
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
def enter_arena(number: int) -> int: ...
def adopt(pool: Pool) -> None: ...
def process_pool() -> Pool: ...
def last_refusal() -> str: ...
def unknown_frees() -> int: ...
