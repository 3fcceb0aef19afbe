"""The C interface (crates/capi/include/stitchpool.h) by ctypes: as much of it as the programs here need."""

import ctypes
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

CUDA, HOST = 1, 2
ALL = 2**64 - 1
PRIVATE, FILE_DESCRIPTOR = 0, 1
PLACE_DEFAULT, PLACE_HOME, PLACE_ROUND_ROBIN = 0, 1, 3
SCOPE_RANGE = 3


class Sized(Structure):
    """A struct whose first field is its own size."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class DriverOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("kind", c_int32), ("host_devices", c_uint32),
                ("host_capacity_bytes", c_uint64), ("host_granule_bytes", c_uint64)]


class DriverInfo(Sized):
    _fields_ = [("struct_size", c_size_t), ("kind", c_int32), ("device_count", c_uint32)]


class DeviceInfo(Sized):
    _fields_ = [("struct_size", c_size_t), ("device", c_int32), ("reserved", c_uint32), ("total_bytes", c_uint64),
                ("granule_bytes", c_uint64), ("uuid", c_uint8 * 16), ("name", c_char * 256)]


class Settings(Sized):
    _fields_ = [("struct_size", c_size_t), ("devices", POINTER(c_int32)), ("device_count", c_size_t),
                ("limit_bytes", c_uint64), ("headroom_bytes", c_uint64), ("handle_bytes_max", c_uint64),
                ("address_bytes", c_uint64), ("wait_max_us", c_uint64), ("seal_pause_us", c_uint64),
                ("decay_us", c_uint64), ("handle_kind", c_int32), ("stream_waits", c_int32),
                ("open_to_peers", c_int32), ("poison", c_int32), ("backup_keep_bytes", c_uint64)]


class Piece(Structure):
    _fields_ = [("device", c_int32), ("weight", c_uint32), ("bytes", c_uint64)]


class Request(Sized):
    _fields_ = [("struct_size", c_size_t), ("bytes", c_uint64), ("stream", c_uint64), ("alignment_bytes", c_uint64),
                ("pieces", POINTER(Piece)), ("piece_count", c_size_t), ("readers", POINTER(c_int32)),
                ("reader_count", c_size_t), ("stripe_bytes", c_uint64), ("placement", c_int32), ("arena", c_uint32),
                ("exclusive", c_int32), ("reserved", c_uint32)]


class Scope(Sized):
    _fields_ = [("struct_size", c_size_t), ("kind", c_int32), ("arena", c_uint32), ("address", c_void_p),
                ("bytes", c_uint64)]


class Moved(Sized):
    _fields_ = [("struct_size", c_size_t), ("memory_bytes", c_uint64), ("content_bytes", c_uint64),
                ("not_yet_visible_bytes", c_uint64), ("already", c_int32), ("reserved", c_uint32)]


class Segment(Structure):
    _fields_ = [("address", c_void_p), ("bytes", c_uint64), ("handle", c_uint64), ("offset_bytes", c_uint64),
                ("device", c_int32), ("reserved", c_uint32)]


class Refused(Exception):
    pass


class Library:
    """The library; every call that answers a status raises if that is not OK."""

    def __init__(self, path):
        self.raw = ctypes.CDLL(path)
        self.raw.stitchpool_last_error.restype = c_char_p
        self.raw.stitchpool_status_name.restype = c_char_p

    def __getattr__(self, name):
        function = getattr(self.raw, "stitchpool_" + name)

        def call(*arguments):
            status = function(*arguments)
            if status != 0:
                words = self.raw.stitchpool_last_error().decode()
                raise Refused(f"{name}: {self.raw.stitchpool_status_name(status).decode()}: {words}")

        return call


class Driver:
    def __init__(self, library, kind, host_devices=0, host_capacity_bytes=0):
        self.library, self.raw = library, c_void_p()
        options = DriverOptions(kind=kind, host_devices=host_devices, host_capacity_bytes=host_capacity_bytes)
        library.driver_open(byref(options), byref(self.raw))
        info = DriverInfo()
        library.driver_describe(self.raw, byref(info))
        self.device_count = info.device_count

    def device(self, ordinal):
        info = DeviceInfo()
        self.library.device_describe(self.raw, c_int32(ordinal), byref(info))
        return info

    def stream(self, device):
        """A new stream of the driver's own, by its raw value."""
        raw = c_void_p()
        self.library.driver_stream_create(self.raw, c_int32(device), byref(raw))
        return raw.value

    def end_stream(self, device, raw):
        self.library.driver_stream_finish(self.raw, c_int32(device), c_void_p(raw))
        self.library.driver_stream_destroy(self.raw, c_int32(device), c_void_p(raw))


class Pool:
    def __init__(self, driver, **settings):
        self.library, self.raw = driver.library, c_void_p()
        chosen = Settings()
        self.library.settings_default(byref(chosen))
        for name, value in settings.items():
            setattr(chosen, name, value)
        self.library.pool_create(driver.raw, byref(chosen), byref(self.raw))

    def stream(self, device, raw):
        """The pool's number of a raw stream."""
        number = c_uint64()
        self.library.stream_register(self.raw, c_int32(device), c_void_p(raw), byref(number))
        return number.value

    def retire(self, stream):
        self.library.stream_retire(self.raw, c_uint64(stream))

    def alloc(self, stream, size_bytes, devices=(), stripe_bytes=0):
        """An exclusive block: on the stream's device, on the one device named, or dealt to those named."""
        pieces = (Piece * max(len(devices), 1))(*[Piece(device=device) for device in devices])
        placement = PLACE_ROUND_ROBIN if stripe_bytes else PLACE_HOME if devices else PLACE_DEFAULT
        request = Request(bytes=size_bytes, stream=stream, pieces=pieces, piece_count=len(devices),
                          stripe_bytes=stripe_bytes, placement=placement, exclusive=1)
        address = c_void_p()
        self.library.alloc_request(self.raw, byref(request), byref(address), None)
        return address.value

    def free(self, address):
        self.library.free(self.raw, c_void_p(address))

    def segments(self, address, size_bytes):
        array, count = (Segment * 65536)(), c_size_t()
        self.library.segments(self.raw, c_void_p(address), c_uint64(size_bytes), array, c_size_t(len(array)),
                              byref(count))
        return array[:count.value]

    def suspend(self, address, size_bytes):
        """Content of a part of a block goes to host memory, its memory to the driver; answers the bytes given back."""
        moved = Moved()
        scope = Scope(kind=SCOPE_RANGE, address=address, bytes=size_bytes)
        self.library.suspend(self.raw, byref(scope), None, byref(moved))
        return moved.memory_bytes

    def resume(self, address, size_bytes):
        moved = Moved()
        scope = Scope(kind=SCOPE_RANGE, address=address, bytes=size_bytes)
        self.library.resume(self.raw, byref(scope), byref(moved))
        return moved.memory_bytes

    def trim_and_wait(self):
        self.library.trim_and_wait(self.raw, None)

    def destroy(self):
        self.library.pool_destroy(self.raw)
