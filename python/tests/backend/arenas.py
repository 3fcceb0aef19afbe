"""One pool for PyTorch and Python: arenas that sleep and wake, and whoever is short of memory."""

import sys
import threading

from pretended import MIB, backend, ctypes, current, pretended, reads, sharing, start, torch, write


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


def a_process_ends_well_while_an_arena_sleeps():
    plug, p = sharing(), start()
    if plug is None:
        return
    with plug.arena("weights"):
        kept, gone = p.alloc(6 * MIB), p.alloc(2 * MIB)
    plug.suspend("weights")
    # The one is never freed, the other by what Python runs last.
    sys.modules["the very last"] = type("Last", (), {"__del__": lambda self: p.free(gone)})()
    globals()["kept for ever"] = kept
