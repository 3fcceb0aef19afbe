"""What pools hold and have done. Sizes are bytes."""

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Holdings:
    """What holds a device's memory, as one pool sees it."""

    device: int
    limit_bytes: int
    """The pool may hold so much."""
    physical_bytes: int
    """It holds so much."""
    live_bytes: int
    """In live blocks."""
    leased_bytes: int
    """Of these, in blocks that may be put out but for leases or views that hold them."""
    remote_bytes: int
    """Of the live ones, in blocks whose streams are of other devices: they are used from afar."""
    free_bytes: int
    """Cached: in wholly free handles and idle ones."""
    pending_bytes: int
    """Freed, but other streams may still be using it."""
    stranded_bytes: int
    """Free in partly used handles."""
    quarantined_bytes: int
    """Out of use: the driver refused to take it back."""
    suspended_bytes: int
    """In blocks that are suspended: not held now, and needed to resume."""
    backup_bytes: int
    """In backups of suspended blocks of other devices, and kept for such."""
    pinned_bytes: int
    """Free, but a graph's or in pinned handles, so that nobody may take them."""
    kept_bytes: int
    """Freed, but leases or views still hold them."""
    device_free_bytes: Optional[int]
    """Free outside the pool; None where that is not known."""


@dataclass(frozen=True)
class DeviceStats(Holdings):
    """The same, with the highest so far."""

    physical_peak_bytes: int
    live_peak_bytes: int
    """Lowered by decay."""


@dataclass(frozen=True)
class Stats:
    """Figures of one pool."""

    devices: tuple[DeviceStats, ...]
    allocs: int
    frees: int
    misses: int
    """Requests that found no free extent."""
    handles_created: int
    handles_released: int
    handles_aliased: int
    """Taken from one place to another."""
    handles_unmapped: int
    stale_mappings: int
    """Left by their handle, to be taken down."""
    stream_waits: int
    """Times that one stream was made to wait for another."""
    cpu_waits: int
    """Times that the CPU waited for the GPU."""
    forced_bytes: int
    """Created beyond the highest live bytes of that time."""
    evictions: int
    """Blocks that were put out because memory was short."""
    evicted_bytes: int
    """Memory that was freed by that."""
    returned_bytes: int
    """Memory that was taken to bring such blocks back."""
    live_blocks: int
    metadata_bytes: int
    """Host memory of the pool itself."""
    quarantined: int
    """Things that the driver refused to take back."""

    @property
    def hits(self) -> int:
        """Requests served without a driver call."""
        return self.allocs - self.misses

    @property
    def live_bytes(self) -> int:
        """Of all devices."""
        return sum(device.live_bytes for device in self.devices)

    @property
    def physical_bytes(self) -> int:
        """Of all devices."""
        return sum(device.physical_bytes for device in self.devices)

    @property
    def suspended_bytes(self) -> int:
        """Of all devices."""
        return sum(device.suspended_bytes for device in self.devices)

    @property
    def backup_bytes(self) -> int:
        """Of all devices."""
        return sum(device.backup_bytes for device in self.devices)

    @property
    def pinned_bytes(self) -> int:
        """Of all devices."""
        return sum(device.pinned_bytes for device in self.devices)

    @property
    def kept_bytes(self) -> int:
        """Of all devices."""
        return sum(device.kept_bytes for device in self.devices)


@dataclass(frozen=True)
class Segment:
    """A run of addresses that one physical handle stands behind."""

    address: int
    bytes: int
    device: int
    handle: int
    """The driver's value."""
    offset_bytes: int
    """Where in the handle the run begins."""


@dataclass(frozen=True)
class Shortage:
    """What a request lacks, for whoever may help."""

    asked_bytes: int
    missing_bytes: int
    devices: tuple[Holdings, ...]
    words: str


@dataclass(frozen=True)
class Trimmed:
    """What a trim has done."""

    released_bytes: int
    """Given back to the driver."""
    waiting_bytes: int
    """Free, but some stream may still be using it."""


@dataclass(frozen=True)
class Suspended:
    """What a suspend has done."""

    already: bool
    """Nothing was awake, and nothing was done."""
    released_bytes: int
    """Memory that the blocks gave back. What their backup takes in its place is not subtracted."""
    backup_bytes: int
    """Content that was put away."""
    not_yet_visible_bytes: int
    """Given back, but the driver does not show it as free yet."""


@dataclass(frozen=True)
class Resumed:
    """What a resume has done."""

    already: bool
    """Nothing was asleep, and nothing was done."""
    taken_bytes: int
    restored_bytes: int
    """Content that was brought back."""


@dataclass(frozen=True)
class Migrated:
    """What a migration has done."""

    moved_bytes: int
    copied_bytes: int
