"""What the PyTorch backend must do, on the host driver. Each case runs in a process of its own, because an
allocator is installed once a process: `cases.py NAME`."""

import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings

from pretended import GRANULE, MIB, backend, ctypes, current, pretended, start, torch  # (knows the folder above)

import arenas
import graphs
import viewer


def blocks_are_counted_and_peaks_begin_anew():
    p = start()
    large, small = p.alloc(5 * MIB + 1), p.alloc(1000)
    stats = p.stats()
    assert current(stats, "allocation") == 2 and current(stats, "allocation", "small_pool") == 1
    assert current(stats, "allocated_bytes") == 5 * MIB + 512 + 1024
    assert current(stats, "requested_bytes") == 5 * MIB + 1 + 1000
    assert current(stats, "allocated_bytes", "small_pool") == 1024
    assert current(stats, "reserved_bytes") == 3 * GRANULE
    p.free(large)
    assert p.stats()["allocated_bytes.all.peak"] == 5 * MIB + 512 + 1024
    torch._C._cuda_resetPeakMemoryStats(0)
    assert p.stats()["allocated_bytes.all.peak"] == 1024
    torch._C._cuda_emptyCache()
    torch._C._cuda_resetPeakMemoryStats(0)
    assert p.stats()["reserved_bytes.all.peak"] == GRANULE, "the granule that the small block is in"
    torch._C._cuda_resetAccumulatedMemoryStats(0)
    stats = p.stats()
    assert stats["allocation.all.allocated"] == 0 and stats["num_device_alloc"] == 0
    p.free(small)
    stats = p.stats()
    assert stats["allocation.all.freed"] == 1 and current(stats, "allocated_bytes") == 0


def out_of_memory_is_readable_and_can_be_got_over():
    p = start()
    p.shim.pretend_observe()
    held = p.alloc(40 * MIB)
    try:
        torch._C._cuda_cudaCachingAllocator_raw_alloc(30 * MIB, 0)
    except torch.OutOfMemoryError as error:
        words = str(error)
    for part in ("CUDA out of memory. Tried to allocate 30.00 MiB", "40.00 MiB in tensors", "live 41943040", "pending"):
        assert part in words, words
    assert "expandable_segments" not in words and "fragmentation" not in words, "no advice that cannot help"
    assert p.stats()["num_ooms"] == 1 and p.shim.pretend_told() >= 2
    p.free(held)
    assert p.alloc(60 * MIB) is not None


def free_granules_anywhere_make_a_block():
    p = start(handle_bytes_max=GRANULE)
    blocks = [p.alloc(GRANULE) for _ in range(32)]
    for block in blocks[::2]:
        p.free(block)
    assert p.alloc(32 * MIB) is not None, "half of the device is free, in holes"


def a_fraction_of_the_memory_is_a_limit():
    p = start()
    torch._C._cuda_setMemoryFraction(0.25, 0)
    assert torch._C._cuda_getMemoryFraction(0) == 0.25
    assert p.alloc(17 * MIB) is None and p.alloc(16 * MIB) is not None
    torch._C._cuda_setMemoryFraction(1.0, 0)
    assert p.alloc(40 * MIB) is not None


def a_stream_that_uses_a_block_is_remembered():
    p = start()
    main, side = p.stream(), p.stream()
    p.current(main)
    block = p.alloc(MIB)
    p.record_stream(block, side)
    p.record_stream(block, main)
    p.free(block)
    assert p.stats()["active_bytes.all.current"] in (0, MIB)
    assert p.alloc(MIB) is not None
    assert backend.pool_stats()["frees"] == 1


def a_snapshot_tells_what_stands_and_what_happened():
    p = start()
    p.shim.pretend_history(1)
    side = p.stream()
    first, second = p.alloc(3 * MIB), p.alloc(1000)
    p.record_stream(first, side)
    p.busy(side, True)
    p.free(first)
    p.busy(side, False)
    p.free(second)
    third = p.alloc(2 * MIB)
    assert torch._C._cuda_isHistoryEnabled()
    snapshot = torch._C._cuda_memorySnapshot(None)
    actions = [(event["action"], event["addr"]) for event in snapshot["device_traces"][0]]
    assert ("free_completed", first) in actions and ("alloc", third) in actions, actions
    assert actions.index(("free_requested", first)) < actions.index(("free_completed", first)), actions
    assert any(action == "segment_map" for action, _ in actions)
    check_segments(snapshot["segments"], {third: 2 * MIB})
    path = os.environ.get("STITCHPOOL_SNAPSHOT", "/dev/null")
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)
    cli = os.environ.get("STITCHPOOL_CLI")
    if cli and path != "/dev/null":
        said = subprocess.run([cli, "replay", path, "--driver", "host", "--json"], capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        assert '"allocs":3' in said.stdout.replace(" ", ""), said.stdout
    p.shim.pretend_history(0)
    assert not torch._C._cuda_isHistoryEnabled()


def torchs_viewer_shows_a_snapshot():
    p = start(capacity_bytes=128 * MIB)
    kept = p.alloc(3 * MIB)
    p.shim.pretend_history(1)
    main, side, capture = p.stream(), p.stream(), p.stream()
    for turn in range(6):
        p.current(side if turn % 2 else main)
        for block in [p.alloc((1 + turn) * MIB), p.alloc(700)]:
            p.free(block)
        if turn == 3:
            torch._C._cuda_emptyCache()
    p.begin((21, 0), capture)
    p.current(capture)
    p.capturing(capture, True)
    graphs, gone = p.alloc(5 * MIB), p.alloc(6 * MIB)
    p.free(gone)
    p.capturing(capture, False)
    p.pool("end", (21, 0))
    p.current(main)
    p.free(p.alloc(30 * MIB))
    p.begin((0, 22))
    inside = p.alloc(12 * MIB)  # a part of what was mapped at once, and a segment of its own in the snapshot
    p.pool("end", (0, 22))
    torch._C._cuda_cudaCachingAllocator_enable(False)
    plain, passing = p.alloc(MIB), p.alloc(MIB)
    p.free(passing)
    torch._C._cuda_cudaCachingAllocator_enable(True)
    pending, done = p.alloc(4 * MIB), p.alloc(4 * MIB)
    p.busy(side, True)
    p.record_stream(pending, side)
    p.free(pending)
    p.free(done)
    snapshot = torch._C._cuda_memorySnapshot(None)
    states = {block["address"]: block["state"] for one in snapshot["segments"] for block in one["blocks"]}
    assert states[pending] == "active_pending_free" and states[kept] == states[plain] == "active_allocated", states
    owners = {one["segment_pool_id"] for one in snapshot["segments"]}
    assert owners == {(0, 0), (21, 0), (0, 22)} and states[graphs] == states[inside] == "active_allocated"
    assert viewer.opens(snapshot) > 40
    p.busy(side, False)
    assert viewer.opens(torch._C._cuda_memorySnapshot(None)) > 40


def check_segments(segments, live):
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            assert (block["state"] == "active_allocated") == (at in live), block
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
    found = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
    assert {block["address"]: block["requested_size"] for block in found} == live


def threads_keep_the_sums():
    p = start(capacity_bytes=1024 * MIB)

    def work(seed):
        mine = []
        for turn in range(2000):
            mine.append(p.alloc(512 * (1 + (seed * 31 + turn * 7) % 64)))
            if len(mine) > 8:
                p.free(mine.pop(turn % 8))
        for block in mine:
            p.free(block)

    shim, p.shim = p.shim, ctypes.CDLL(p.shim._name)
    p.shim.pretend_allocate.restype = ctypes.c_void_p
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p.shim = shim
    stats = p.stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 32000
    assert current(stats, "allocated_bytes") == 0 == current(stats, "requested_bytes")
    assert backend.pool_stats()["live_blocks"] == 0


def several_devices_stand_apart():
    p = start(devices=2)
    p.current(0, device=1)
    block = p.alloc(6 * MIB)
    assert current(p.stats(1), "allocated_bytes") == 6 * MIB and current(p.stats(0), "allocated_bytes") == 0
    assert current(p.stats(0), "reserved_bytes") == 0
    torch._C._cuda_setMemoryFraction(0.125, 0)
    assert p.alloc(30 * MIB) is not None, "the limit is the other device's"
    p.current(0, device=0)
    assert p.alloc(10 * MIB) is None
    p.record_stream(block, 0 or p.stream(0), device=0)  # a peer may use it
    p.free(block)


def what_belongs_to_nobody_is_left_alone():
    p = start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p.free(0x1234567000)
    block = p.alloc(MIB)
    p.free(block)
    p.free(block)
    assert current(p.stats(), "allocation") == 0


def a_block_is_found_by_its_middle_and_the_largest_request_is_known():
    p = start()
    assert p.shim.pretend_largest() == 64 * MIB
    block = p.alloc(5 * MIB)
    size = ctypes.c_size_t()
    assert p.shim.pretend_base(ctypes.c_void_p(block + MIB), ctypes.byref(size)) == block
    assert size.value == 5 * MIB and p.shim.pretend_largest() == 58 * MIB


def an_allocator_that_is_not_enabled_takes_plain_memory():
    p = start()
    kept = p.alloc(MIB)
    torch._C._cuda_cudaCachingAllocator_enable(False)
    plain = p.alloc(3 * MIB)
    assert backend.pool_stats()["live_bytes"] == MIB and current(p.stats(), "allocated_bytes") == 4 * MIB
    torch._C._cuda_memorySnapshot(None)
    p.free(kept)
    torch._C._cuda_cudaCachingAllocator_enable(True)
    p.free(plain)
    assert current(p.stats(), "allocated_bytes") == 0


def installing_fails_loudly_or_not_at_all():
    for arguments, words in [
        ({"library_path": "/nowhere/libstitchpool.so"}, "cannot be loaded"),
        ({"library_path": "libc.so.6"}, "has no function stitchpool_version"),
    ]:
        try:
            backend.install(**arguments, shim_path=backend.build.shim(flags=("-Werror",)))
        except RuntimeError as error:
            assert words in str(error), error
        else:
            raise AssertionError(arguments)
        assert not backend.is_installed() and torch.cuda.memory.get_allocator_backend() == "native"
    start()
    try:
        backend.install()
    except RuntimeError as error:
        assert "already" in str(error)
    else:
        raise AssertionError("installed twice")


def blocks_may_outlive_the_interpreter():
    p = start()
    keeper = [p.alloc(MIB) for _ in range(4)]
    globals()["kept for ever"] = keeper
    sys.modules["kept too"] = type("Last", (), {"__del__": lambda self: p.free(keeper[0])})()


def a_child_of_a_fork_touches_nothing():
    p = start()
    block = p.alloc(MIB)
    child = os.fork()
    if child == 0:
        p.free(block)
        os._exit(0 if p.alloc(MIB) is None else 3) if refused(p) else os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    p.free(block)
    assert current(p.stats(), "allocation") == 0


def refused(p):
    try:
        torch._C._cuda_cudaCachingAllocator_raw_alloc(MIB, 0)
    except RuntimeError as error:
        if "fork" in str(error):
            os._exit(0)
    return False


MODULES = (sys.modules["__main__"], graphs, arenas)
HELPERS = {"check_segments", "refused"}

if __name__ == "__main__":
    named = {
        case.__name__: case for module in MODULES for case in list(vars(module).values())
        if callable(case) and getattr(case, "__module__", None) == module.__name__ and case.__name__ not in HELPERS
    }
    if sys.argv[1:] == ["--list"]:
        print("\n".join(named))
    elif sys.argv[1:] == ["--build"]:
        pretended(), backend.build.shim(flags=("-Werror",))
    else:
        named[sys.argv[1]]()
        gc.collect()
