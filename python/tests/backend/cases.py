"""What the PyTorch backend must do, on the host driver. Each case runs in a process of its own, because an
allocator is installed once a process: `cases.py NAME`."""

import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings

from pretended import GRANULE, MIB, backend, ctypes, pretended, start, torch  # (makes the folder above known)

import viewer

ALL = "all"


def current(stats, name, side=ALL):
    return stats[f"{name}.{side}.current"]


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


def a_graphs_pool_keeps_what_is_freed_in_it():
    p = start()
    capture, other = p.stream(), p.stream()
    graph = (7, 0)
    p.begin(graph, capture)
    p.current(capture)
    first = p.alloc(3 * MIB)
    p.free(first)
    assert p.alloc(3 * MIB) == first, "freed in the capture, used again in it"
    p.current(other)
    elsewhere = p.alloc(3 * MIB)
    assert not first <= elsewhere < first + 20 * MIB, "another stream is no part of the capture"
    p.pool("end", graph)
    p.free(first)
    p.current(capture)
    assert not first <= p.alloc(3 * MIB) < first + 20 * MIB, "the graph will write there when it is replayed"
    torch._C._cuda_emptyCache()
    assert p.pool("users", graph) == 1
    held = current(p.stats(), "reserved_bytes")
    p.pool("leave", graph)
    torch._C._cuda_emptyCache()
    assert p.pool("users", graph) == 0
    assert current(p.stats(), "reserved_bytes") <= held - 18 * MIB


def the_innermost_pool_serves_and_each_stream_has_its_own():
    p = start()
    stream = p.stream()
    outer, inner = (0, 1), (0, 2)
    p.current(stream)
    p.pool("join", outer), p.pool("join", inner)
    p.begin(outer, stream)
    p.begin(inner)
    block = p.alloc(MIB)
    assert torch._C._cuda_checkPoolLiveAllocations(0, inner, {block})
    p.pool("end", inner)
    again = p.alloc(MIB)
    assert torch._C._cuda_checkPoolLiveAllocations(0, outer, {again})
    assert not torch._C._cuda_checkPoolLiveAllocations(0, outer, {block})
    p.pool("end", outer)
    assert p.pool("users", outer) == 2
    shown = torch._C._cuda_memorySnapshot(inner)["segments"]
    assert [segment["segment_pool_id"] for segment in shown] == [inner] and shown[0]["allocated_size"] == MIB


def a_captured_use_of_another_stream_ends_after_the_capture():
    p = start()
    capture, side = p.stream(), p.stream()
    p.begin((9, 0), capture)
    p.current(capture)
    p.capturing(side, True)
    block = p.alloc(2 * MIB)
    p.record_stream(block, side)
    p.free(block)
    assert p.alloc(2 * MIB) != block, "the side stream is a part of the capture"
    p.capturing(side, False)
    p.busy(side, True)
    assert p.alloc(2 * MIB) != block
    p.busy(side, False)
    blocks = [p.alloc(2 * MIB) for _ in range(8)]
    assert block in blocks, "the pieces come by address"
    p.pool("end", (9, 0))


def a_capture_that_torch_never_ends_is_given_up():
    p = start()
    capture, other = p.stream(), p.stream()
    graph = (11, 0)
    p.begin(graph, capture)
    p.current(capture)
    p.capturing(capture, True)
    block = p.alloc(8 * MIB)
    p.free(block)
    p.capturing(capture, False)  # it has failed, and nobody says so
    held = current(p.stats(), "reserved_bytes")
    p.current(other)
    elsewhere = p.alloc(MIB)
    assert p.pool("users", graph) == 0
    torch._C._cuda_emptyCache()
    assert current(p.stats(), "reserved_bytes") <= held - 16 * MIB, "its memory went back"
    p.begin(graph, capture)
    p.current(capture)
    p.capturing(capture, True)
    again = p.alloc(8 * MIB)
    p.capturing(capture, False)
    p.current(other)
    p.free(elsewhere)
    assert p.alloc(MIB) is not None
    p.pool("end", graph)  # torch was just about to
    assert p.pool("users", graph) == 1
    p.free(again)
    p.pool("leave", graph)
    torch._C._cuda_emptyCache()
    assert backend.pool_stats()["live_blocks"] == 1


def a_captured_stream_is_served_from_idle_and_new_memory_alone():
    p = start()
    capture, busy = p.stream(), p.stream()
    p.current(busy)
    freed = p.alloc(40 * MIB)
    p.free(freed)
    graph = (12, 0)
    p.begin(graph, capture)
    p.current(capture)
    p.capturing(capture, True)
    assert p.alloc(30 * MIB) is None, "what another stream freed cannot be waited for, and is not taken"
    kept = p.alloc(20 * MIB)
    assert kept is not None, "the capture goes on"
    p.capturing(capture, False)
    p.pool("end", graph)
    p.current(busy)
    assert p.alloc(40 * MIB) == freed
    p.free(kept)
    p.pool("leave", graph)
    torch._C._cuda_emptyCache()
    assert p.alloc(20 * MIB) is not None


def a_pool_lends_where_memory_is_short():
    p = start()
    pool = (0, 5)
    p.pool("join", pool)
    p.pool("use_on_oom", pool)
    p.begin(pool)
    kept = p.alloc(20 * MIB)
    p.free(kept)
    p.pool("end", pool)
    rest = p.alloc(44 * MIB)
    assert rest is not None and p.alloc(20 * MIB) == kept
    p.free(kept)
    assert p.alloc(45 * MIB) is None


def a_checkpoint_is_set_back():
    p = start()
    graph = (3, 0)
    p.begin(graph)
    kept, gone = p.alloc(4 * MIB), p.alloc(5 * MIB)
    p.pool("checkpoint", graph)
    p.free(gone)
    late = p.alloc(MIB // 2)
    assert torch._C._cuda_checkPoolLiveAllocations(0, graph, {kept, late})
    assert p.shim.pretend_restore() == 22, "two blocks were live, two are"
    assert torch._C._cuda_checkPoolLiveAllocations(0, graph, {kept, gone})
    assert current(p.stats(), "allocated_bytes") == 9 * MIB
    p.shim.pretend_drop_restored()
    assert torch._C._cuda_checkPoolLiveAllocations(0, graph, set())
    assert {p.alloc(4 * MIB), p.alloc(5 * MIB)} == {kept, gone}
    p.pool("end", graph)


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
    p = start(handle_bytes_max=GRANULE)
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
    assert owners == {(0, 0), (21, 0)} and states[graphs] == "active_allocated"
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


def sharing():
    """stitchpool.torch, where the backend is that of the installed package; else there is nobody to share with."""
    return sys.modules.get("stitchpool.torch")


def write(address, size, value):
    ctypes.memset(address, value, size)


def reads(address, size, value):
    return ctypes.string_at(address, size) == bytes([value]) * size


def arenas_sleep_and_wake_with_their_tensors():
    plug, p = sharing(), start()
    if plug is None:
        return
    assert plug.enabled() == "full" and plug.pool() is plug.pool() and plug.pool().driver == "host"
    side = p.stream()
    with plug.arena("weights") as weights:
        first = p.alloc(6 * MIB)
        with plug.arena("cache"):
            cached = p.alloc(4 * MIB)
        with weights:
            p.current(side)
            second = p.alloc(3 * MIB)
            p.current()
        gone = p.alloc(2 * MIB)
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(p.alloc(8 * MIB)))
        thread.start(), thread.join()
    outside = p.alloc(2 * MIB)
    blocks = {first: 6, cached: 4, second: 3, gone: 2, elsewhere[0]: 8, outside: 2}
    for value, (address, mib) in enumerate(blocks.items()):
        write(address, mib * MIB, value + 1)
    held = current(p.stats(), "reserved_bytes")
    assert plug.suspend("weights").released_bytes >= 11 * MIB
    assert backend.pool_stats()["suspended_bytes"] >= 11 * MIB, "F55: told apart"
    assert current(p.stats(), "reserved_bytes") <= held - 12 * MIB, "and not held"
    assert current(p.stats(), "allocated_bytes") == 25 * MIB
    assert plug.suspend("weights").already
    for value, address in enumerate(blocks):
        if address in (cached, elsewhere[0], outside):
            assert reads(address, blocks[address] * MIB, value + 1), "of another arena"
    torch._C._cuda_memorySnapshot(None)
    p.free(gone)
    with weights:
        try:
            torch._C._cuda_cudaCachingAllocator_raw_alloc(MIB, 0)
        except RuntimeError as error:
            assert "weights" in str(error) and "ASLEEP" in str(error), error
        else:
            raise AssertionError("served by an arena that sleeps")
    plug.resume("weights")
    for value, address in enumerate(blocks):
        assert address == gone or reads(address, blocks[address] * MIB, value + 1)
    assert backend.pool_stats()["suspended_bytes"] == 0
    for address in blocks:
        if address != gone:
            p.free(address)
    try:
        plug.suspend("weight")
    except ValueError as error:
        assert "cache, weights" in str(error), error
    else:
        raise AssertionError("an arena that nobody has made")


def f58_generation_and_training_take_turns():
    """Either side needs more than half of the device; whoever does not run sleeps."""
    plug, p = sharing(), start(capacity_bytes=64 * MIB)
    if plug is None:
        return
    with plug.arena("training"):
        state = [p.alloc(size) for size in (9 * MIB, 7 * MIB + 512, 13 * MIB, 700, 11 * MIB)]
    write(state[0], 9 * MIB, 1)
    with plug.arena("generation"):
        assert p.alloc(40 * MIB) is None, "there is no room for both"
    held = set()
    for cycle in range(30):
        plug.suspend("training")
        with plug.arena("generation"):
            cache = [p.alloc((17 + cycle % 7) * (MIB // 8) * 3) for _ in range(6)]
        assert all(cache)
        for block in cache:
            p.free(block)
        torch._C._cuda_emptyCache()
        plug.resume("training")
        assert reads(state[0], 9 * MIB, 1)
        activations = [p.alloc((2 + cycle % 3) * MIB) for _ in range(4)]
        assert all(activations)
        for block in activations:
            p.free(block)
        torch._C._cuda_emptyCache()
        held.add(current(p.stats(), "reserved_bytes"))
    assert len(held) == 1, f"a cycle leaves nothing behind: {held}"


def a_graph_in_an_arena_keeps_its_own_memory():
    plug, p = sharing(), start()
    if plug is None:
        return
    capture = p.stream()
    with plug.arena("weights"):
        kept = p.alloc(4 * MIB)
        p.begin((5, 0), capture)
        p.current(capture)
        p.capturing(capture, True)
        inside = p.alloc(4 * MIB)
        try:
            plug.suspend("weights")
        except sys.modules["stitchpool"].Capturing:
            pass
        else:
            raise AssertionError("memory cannot leave while a stream is being captured")
        p.capturing(capture, False)
        p.pool("end", (5, 0))
        write(inside, 4 * MIB, 9)
        plug.suspend("weights")
        assert reads(inside, 4 * MIB, 9)
        plug.resume("weights")
    p.free(inside), p.free(kept)


def one_pool_serves_python_and_torch():
    plug = sharing()
    if plug is None:
        start()
        return
    mine = plug.configure("host", capacity=64 * MIB)
    shim_path = pretended()
    try:
        backend.install(driver="host", host_capacity_bytes=32 * MIB, shim_path=shim_path)
    except RuntimeError as error:
        assert "already" in str(error), error
    else:
        raise AssertionError("settings of a pool that is open")
    backend.install(shim_path=shim_path)
    shim = ctypes.PyDLL(str(shim_path))
    shim.pretend_allocate.restype = ctypes.c_void_p
    shim.pretend_init(1)
    block = shim.pretend_allocate(ctypes.c_size_t(40 * MIB))
    assert plug.pool() is mine and mine.holds(block) and mine.stats().live_bytes == 40 * MIB
    asked = []
    mine.on_shortage(lambda shortage: asked.append(shortage.asked_bytes))
    assert shim.pretend_allocate(ctypes.c_size_t(30 * MIB)) is None and asked == [30 * MIB]
    other = mine.alloc(20 * MIB)
    assert backend.pool_stats()["live_bytes"] == 60 * MIB
    other.free()
    shim.pretend_delete(ctypes.c_void_p(block))


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


CASES = [
    value for value in list(globals().values())
    if getattr(value, "__module__", None) == "__main__" and callable(value)
    and value.__name__ not in {"current", "check_segments", "refused", "pretended", "sharing", "write", "reads"}
]

if __name__ == "__main__":
    named = {case.__name__: case for case in CASES}
    if sys.argv[1:] == ["--list"]:
        print("\n".join(named))
    elif sys.argv[1:] == ["--build"]:
        pretended(), backend.build.shim(flags=("-Werror",))
    else:
        named[sys.argv[1]]()
        gc.collect()
