"""NCCL all-reduces on memory of the pool, over all GPUs of this machine: right, as fast as on cudaMalloc'ed memory, and
right again once other memory stands behind the same addresses. No multicast: NVLS is off.

    python3 tests/gpu/nccl.py LIBRARY [--processes one|each] [--case plain|registered|kept|graph] [--kind private|fd]
    python3 tests/gpu/nccl.py LIBRARY --driver host --dry-run

LIBRARY is libstitchpool_c.so. `one` process has a communicator for each GPU; or `each` GPU has a process. Prints a
line a finding, and ends with status 1 if any is wrong. `kept` swaps the memory under a registration: nobody promises
that this holds.
"""

import argparse
import ctypes
import multiprocessing
import os
import queue
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint8, c_void_p

os.environ["NCCL_NVLS_ENABLE"] = "0"
os.environ.setdefault("NCCL_DEBUG", "WARN")

import pool as c_face

MIB = 1 << 20
BUFFER_BYTES = 256 * MIB
TURNS = 20
PATIENCE_S = 60
INT32, SUM = 2, 0
# The pool makes handles of at most this part of a request.
REQUEST_PART = 128
# Name, size of the handles, whether every second handle is on the next GPU.
LAYOUTS = [("2 MiB handles", 2 * MIB, False), ("64 MiB handles", 64 * MIB, False),
           ("2 MiB handles, every second on the next GPU", 2 * MIB, True),
           ("64 MiB handles, every second on the next GPU", 64 * MIB, True)]
KINDS = {"private": c_face.PRIVATE, "fd": c_face.FILE_DESCRIPTOR}


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", c_uint8 * 128)]


class Nccl:
    """Calls by their name without `nccl`; each raises if its answer is not ncclSuccess."""

    def __init__(self):
        try:
            self.raw = ctypes.CDLL("libnccl.so.2")  # the one that torch has loaded
        except OSError:
            import nvidia.nccl

            self.raw = ctypes.CDLL(os.path.join(list(nvidia.nccl.__path__)[0], "lib", "libnccl.so.2"))
        self.raw.ncclGetErrorString.restype = ctypes.c_char_p
        self.raw.ncclCommInitRank.argtypes = [ctypes.POINTER(c_void_p), c_int, UniqueId, c_int]

    def __getattr__(self, name):
        function = getattr(self.raw, "nccl" + name)

        def call(*arguments):
            result = function(*arguments)
            if result != 0:
                raise RuntimeError(f"nccl{name}: {self.raw.ncclGetErrorString(c_int(result)).decode()}")

        return call


class Rank:
    """A GPU with its stream and communicator."""

    def __init__(self, device, stream, comm):
        self.device, self.stream, self.comm = device, stream, comm
        self.raw_stream = stream.cuda_stream


class World:
    """The ranks of this process, among `size`."""

    def __init__(self, devices, size, meet):
        import torch

        import driver_calls

        self.torch, self.nccl, self.cuda, self.size, self.meet = torch, Nccl(), driver_calls.Cuda(), size, meet
        comms = (c_void_p * len(devices))()
        if len(devices) == size:
            self.nccl.CommInitAll(comms, c_int(size), (c_int * size)(*devices))
        else:
            torch.cuda.set_device(devices[0])
            comm = c_void_p()
            self.nccl.CommInitRank(byref(comm), c_int(size), meet.unique_id(self.nccl, devices[0]), c_int(devices[0]))
            comms[0] = comm
        self.ranks = [Rank(device, torch.cuda.Stream(device), c_void_p(comm)) for device, comm in zip(devices, comms)]

    def all_reduce(self, addresses):
        self.nccl.GroupStart()
        for rank, at in zip(self.ranks, addresses):
            self.nccl.AllReduce(c_void_p(at), c_void_p(at), c_size_t(BUFFER_BYTES // 4), c_int(INT32), c_int(SUM),
                                rank.comm, c_void_p(rank.raw_stream))
        self.nccl.GroupEnd()

    def finish(self):
        """Waits for the work of every rank, those of other processes too."""
        for rank in self.ranks:
            rank.stream.synchronize()
        self.meet.wait()

    def fill(self, addresses, seed):
        for rank, at in zip(self.ranks, addresses):
            self._write(rank, at, self._pattern(rank.device, rank.device + 1, seed))
        self.finish()

    def is_filled(self, addresses, seed):
        return all([self._holds(rank, at, self._pattern(rank.device, rank.device + 1, seed))
                    for rank, at in zip(self.ranks, addresses)])

    def is_reduced(self, addresses, seed):
        """Whether every word is the sum of all ranks' patterns."""
        factor = self.size * (self.size + 1) // 2
        return all([self._holds(rank, at, self._pattern(rank.device, factor, seed * self.size))
                    for rank, at in zip(self.ranks, addresses)])

    def is_right(self, addresses, seed, reduce=None):
        """Fills, reduces, and looks at every word."""
        self.fill(addresses, seed)
        (reduce or self.all_reduce)(addresses)
        self.finish()
        return self.is_reduced(addresses, seed)

    def gigabytes_per_s(self, addresses):
        """Algorithm bandwidth."""
        for _ in range(3):
            self.all_reduce(addresses)
        self.finish()
        begun = time.perf_counter()
        for _ in range(TURNS):
            self.all_reduce(addresses)
        for rank in self.ranks:
            rank.stream.synchronize()
        took_s = time.perf_counter() - begun
        self.meet.wait()
        return BUFFER_BYTES * TURNS / took_s / 1e9

    def register(self, addresses):
        handles = []
        for rank, at in zip(self.ranks, addresses):
            handle = c_void_p()
            self.nccl.CommRegister(rank.comm, c_void_p(at), c_size_t(BUFFER_BYTES), byref(handle))
            handles.append(handle)
        return handles

    def deregister(self, handles):
        for rank, handle in zip(self.ranks, handles):
            self.nccl.CommDeregister(rank.comm, handle)

    def capture(self, addresses):
        """A graph a rank with one all-reduce."""
        for rank in self.ranks:
            with self.torch.cuda.device(rank.device):
                self.cuda.begin_capture(rank.raw_stream)
        self.all_reduce(addresses)
        graphs = []
        for rank in self.ranks:
            with self.torch.cuda.device(rank.device):
                graphs.append(self.cuda.end_capture(rank.raw_stream))
        return graphs

    def launch(self, graphs):
        for rank, graph in zip(self.ranks, graphs):
            with self.torch.cuda.device(rank.device):
                self.cuda.launch(graph, rank.raw_stream)

    def end(self):
        self.finish()
        for rank in self.ranks:
            self.nccl.CommDestroy(rank.comm)

    def tensors(self, word):
        """Plain memory of each rank's GPU, as large as a block."""
        full = self.torch.full
        return [full((BUFFER_BYTES // 4,), word, dtype=self.torch.int32, device=rank.device) for rank in self.ranks]

    def _pattern(self, device, factor, seed):
        words = self.torch.arange(BUFFER_BYTES // 4, dtype=self.torch.int32, device=device)
        return words.remainder_(1_000_003).mul_(factor).add_(seed)

    def _write(self, rank, at, words):
        self._copy(rank, at, words.data_ptr())

    def _holds(self, rank, at, words):
        found = self.torch.empty_like(words)
        self._copy(rank, found.data_ptr(), at)
        return bool(self.torch.equal(found, words))

    def _copy(self, rank, to, origin):
        with self.torch.cuda.device(rank.device):
            self.torch.cuda.synchronize()
            self.cuda.copy(to, origin, BUFFER_BYTES, rank.raw_stream)
            self.cuda.finish(rank.raw_stream)


class Meeting:
    """Where the processes wait for each other, and where each says what it found."""

    def __init__(self, size):
        context = multiprocessing.get_context("spawn")
        self.size, self.barrier = size, context.Barrier(size)
        self.ids, self.found = context.Queue(), context.Queue()

    def wait(self):
        if self.size > 1:
            self.barrier.wait(PATIENCE_S)

    def unique_id(self, nccl, rank):
        """Made by rank 0, for all."""
        if rank > 0:
            return UniqueId.from_buffer_copy(self.ids.get(timeout=PATIENCE_S))
        made = UniqueId()
        nccl.GetUniqueId(byref(made))
        for _ in range(self.size - 1):
            self.ids.put(bytes(made))
        return made

    def tell(self, name, is_right, words=""):
        self.found.put((name, is_right, words))


class Blocks:
    """An exclusive block for each rank of this process, of one layout. Its first bytes are the buffer."""

    def __init__(self, driver, streams, layout, kind):
        _, handle_bytes, is_mixed = layout
        self.pool = c_face.Pool(driver, handle_bytes_max=handle_bytes, open_to_peers=1, handle_kind=kind)
        self.streams = [self.pool.stream(device, raw) for device, raw in streams]
        self.addresses = []
        for (device, _), stream in zip(streams, self.streams):
            devices = [device, (device + 1) % driver.device_count] if is_mixed else [device]
            stripe_bytes = handle_bytes if is_mixed else 0
            size_bytes = max(BUFFER_BYTES, REQUEST_PART * handle_bytes)
            self.addresses.append(self.pool.alloc(stream, size_bytes, devices, stripe_bytes))

    def demand_layout(self, layout):
        _, handle_bytes, is_mixed = layout
        for at in self.addresses:
            segments = self.pool.segments(at, BUFFER_BYTES)
            assert len(segments) == BUFFER_BYTES // handle_bytes, f"{len(segments)} handles of {handle_bytes}"
            assert len({segment.device for segment in segments}) == (2 if is_mixed else 1)
            assert sum(segment.bytes for segment in segments) == BUFFER_BYTES

    def swap(self, between=lambda: None):
        """Other memory under the same addresses, with the same bytes."""
        for at in self.addresses:
            assert self.pool.suspend(at, BUFFER_BYTES) == BUFFER_BYTES
        kept = between()
        for at in self.addresses:
            assert self.pool.resume(at, BUFFER_BYTES) == BUFFER_BYTES
        return kept

    def end(self):
        for at in self.addresses:
            self.pool.free(at)
        for stream in self.streams:
            self.pool.retire(stream)
        self.pool.destroy()


def swapped(world, blocks, reduce):
    """
    Swaps the memory and reduces again. Answers whether the bytes came back, whether the reduced ones are right, and
    whether nobody wrote the memory that the blocks had before: it is in the hands of another by then.
    """
    world.fill(blocks.addresses, 11)
    # Else torch would take what it keeps, and not what the pool gives back.
    world.torch.cuda.empty_cache()
    hogs = blocks.swap(lambda: world.tensors(77))
    world.finish()
    is_kept = world.is_filled(blocks.addresses, 11)
    is_reduced = world.is_right(blocks.addresses, 5, reduce)
    strangers = [bool((hog == 77).all()) for hog in hogs]
    return is_kept, is_reduced, all(strangers)


def tell_swap(world, blocks, name, reduce=None):
    is_kept, is_reduced, is_untouched = swapped(world, blocks, reduce)
    speed = f"{world.gigabytes_per_s(blocks.addresses):.0f} GB/s"
    words = [] if is_kept else ["the content did not come back"]
    words += [] if is_reduced else ["WRONG sums"]
    words += [] if is_untouched else ["memory of others was written"]
    is_right = is_kept and is_reduced and is_untouched
    world.meet.tell(name, is_right, ", ".join(words + [speed]))


def case_plain(world, blocks, name):
    is_right = world.is_right(blocks.addresses, 3)
    world.meet.tell(f"{name}: plain", is_right, f"{world.gigabytes_per_s(blocks.addresses):.0f} GB/s")
    tell_swap(world, blocks, f"{name}: plain, after suspend and resume")


def case_registered(world, blocks, name):
    handles = world.register(blocks.addresses)
    is_right = world.is_right(blocks.addresses, 3)
    world.meet.tell(f"{name}: registered", is_right, f"{world.gigabytes_per_s(blocks.addresses):.0f} GB/s")
    world.finish()
    world.deregister(handles)
    again = []

    def reduce(addresses):
        again.extend(world.register(addresses))
        world.all_reduce(addresses)

    tell_swap(world, blocks, f"{name}: registered anew after the swap", reduce)
    world.finish()
    world.deregister(again)


def case_kept(world, blocks, name):
    handles = world.register(blocks.addresses)
    world.is_right(blocks.addresses, 3)
    tell_swap(world, blocks, f"{name}: registration kept over the swap")
    world.finish()
    world.deregister(handles)


def case_graph(world, blocks, name):
    world.is_right(blocks.addresses, 3)
    graphs = world.capture(blocks.addresses)
    launch = lambda _: world.launch(graphs)
    world.meet.tell(f"{name}: captured graph", world.is_right(blocks.addresses, 7, launch))
    tell_swap(world, blocks, f"{name}: the graph replayed after suspend and resume", launch)
    world.finish()
    for graph in graphs:
        world.cuda.end_graph(graph)


CASES = {"plain": case_plain, "registered": case_registered, "kept": case_kept, "graph": case_graph}


def baseline(world, case):
    """The same on memory of cudaMalloc."""
    tensors = world.tensors(0)
    addresses = [tensor.data_ptr() for tensor in tensors]
    handles = world.register(addresses) if case == "registered" else []
    is_right = world.is_right(addresses, 3)
    world.meet.tell(f"cudaMalloc: {case}", is_right, f"{world.gigabytes_per_s(addresses):.0f} GB/s")
    world.finish()
    world.deregister(handles)


def process(arguments, devices, size, meet):
    """What one process does; it runs alike in all, since all-reduces meet."""
    world = World(devices, size, meet)
    driver = c_face.Driver(c_face.Library(arguments.library), c_face.CUDA)
    baseline(world, arguments.case)
    streams = [(rank.device, rank.raw_stream) for rank in world.ranks]
    for layout in LAYOUTS:
        blocks = Blocks(driver, streams, layout, KINDS[arguments.kind])
        blocks.demand_layout(layout)
        CASES[arguments.case](world, blocks, layout[0])
        world.finish()
        blocks.end()
    world.end()


def run(arguments):
    import torch

    size = torch.cuda.device_count()
    if size < 2:
        print("one GPU: skipped")
        return True
    shares = [list(range(size))] if arguments.processes == "one" else [[device] for device in range(size)]
    meet = Meeting(len(shares))
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=process, args=(arguments, devices, size, meet)) for devices in shares]
    for child in children:
        child.start()
    is_good, told, found = True, {}, 0
    while True:
        codes = [child.exitcode for child in children]
        try:
            name, is_right, words = meet.found.get(timeout=0.5)
        except queue.Empty:
            # What an ended process has told is here; and where one failed, the others wait in vain.
            if None not in codes or any(codes):
                break
            continue
        told.setdefault(name, []).append((is_right, words))
        if len(told[name]) == len(shares):
            found += 1
            right = all(one for one, _ in told[name])
            is_good &= right
            print(f"measured: {name}: {'right' if right else 'WRONG'}; {' | '.join(words for _, words in told[name])}",
                  flush=True)
    for child in children:
        if child.exitcode is None:
            child.terminate()
        child.join()
    is_whole = not any(codes)
    ends = "" if is_whole else f"; the processes ended with {codes}"
    print(f"{found} findings, {'all right' if is_good and found else 'NOT all right'}{ends}")
    return is_good and is_whole and found > 0


def dry_run(arguments):
    """The pool's part alone, on the driver named."""
    kind = c_face.HOST if arguments.driver == "host" else c_face.CUDA
    driver = c_face.Driver(c_face.Library(arguments.library), kind, host_devices=2, host_capacity_bytes=32 << 30)
    streams = [(device, driver.stream(device)) for device in range(driver.device_count)]
    for layout in LAYOUTS:
        blocks = Blocks(driver, streams, layout, KINDS[arguments.kind])
        blocks.demand_layout(layout)
        before = list(blocks.addresses)
        blocks.swap()
        blocks.demand_layout(layout)
        assert blocks.addresses == before
        blocks.end()
        print(f"{layout[0]}: {len(before)} blocks suspended and resumed in place")
    for device, raw in streams:
        driver.end_stream(device, raw)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--processes", choices=["one", "each"], default="one")
    parser.add_argument("--case", choices=list(CASES), default="plain")
    parser.add_argument("--kind", choices=list(KINDS), default="private")
    parser.add_argument("--driver", choices=["cuda", "host"], default="cuda")
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    sys.exit(0 if (dry_run if arguments.dry_run else run)(arguments) else 1)


if __name__ == "__main__":
    main()
