"""Private pools: graphs, captures, torch.cuda.MemPool and checkpoints."""

from pretended import MIB, backend, current, start, torch


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
