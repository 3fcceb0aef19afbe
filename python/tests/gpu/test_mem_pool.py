"""Parts of a process in the pool: torch.cuda.MemPool. F29, F50, F52, F69."""

import pytest

BEGIN = """
    import torch, stitchpool, stitchpool.torch as plug
"""


def test_tensors_lie_in_the_pool(runs):
    runs(
        BEGIN
        + """
    part = plug.mem_pool()
    with plug.use_mem_pool(part):
        tensor = torch.full((64 << 20,), 7, dtype=torch.uint8, device="cuda")
    outside = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    assert plug.pool().holds(tensor.data_ptr()) and not plug.pool().holds(outside.data_ptr())
    assert int(tensor.sum(dtype=torch.int64)) == 7 * (64 << 20)
    assert plug.pool().stats().live_bytes >= 64 << 20
    """
    )


def test_f29a_another_thread_takes_from_the_default(runs):
    runs(
        BEGIN
        + """
    import threading
    part, other = plug.mem_pool(), []
    with plug.use_mem_pool(part):
        thread = threading.Thread(target=lambda: other.append(torch.zeros(32 << 20, dtype=torch.uint8, device="cuda")))
        thread.start(); thread.join()
        mine = torch.zeros(32 << 20, dtype=torch.uint8, device="cuda")
    assert plug.pool().holds(mine.data_ptr()) and not plug.pool().holds(other[0].data_ptr())
    """
    )


def test_f29b_pools_nest(runs):
    runs(
        BEGIN
        + """
    a, b = plug.mem_pool(), plug.mem_pool()
    new = lambda: torch.zeros(32 << 20, dtype=torch.uint8, device="cuda")
    where = lambda part: {segment["address"] for segment in part.snapshot(include_traces=False)}
    with plug.use_mem_pool(a):
        first = new()
        with plug.use_mem_pool(b):
            inner = new()
        last = new()
    assert first.data_ptr() in where(a) and inner.data_ptr() in where(b) and last.data_ptr() in where(a)
    """
    )


def test_f29e_tensors_outlive_their_pool_object(runs):
    runs(
        BEGIN
        + """
    import gc
    part = plug.mem_pool()
    with plug.use_mem_pool(part):
        tensor = torch.full((32 << 20,), 5, dtype=torch.uint8, device="cuda")
    del part
    gc.collect()
    assert int(tensor.sum(dtype=torch.int64)) == 5 * (32 << 20)
    del tensor
    torch.cuda.empty_cache()
    assert plug.unknown_frees() == 0
    """
    )


def test_f52_both_devices_are_counted(runs, two_gpus):
    runs(
        BEGIN
        + """
    new = lambda device: torch.zeros(64 << 20, dtype=torch.uint8, device=f"cuda:{device}")
    parts, tensors = [plug.mem_pool(device) for device in (0, 1)], []
    for device, part in enumerate(parts):
        with torch.cuda.device(device), plug.use_mem_pool(part, device):
            tensors.append(new(device))
    try:
        with torch.cuda.device(1), plug.use_mem_pool(parts[0], 1):
            foreign = new(1)
    except plug.Bypassed as told:
        assert "for the device that it is used on" in str(told)
    else:
        assert plug.pool().holds(foreign.data_ptr()), "bypassed, and nobody was told"
    assert all(plug.pool().holds(tensor.data_ptr()) for tensor in tensors)
    live = {device.device: device.live_bytes for device in plug.pool().stats().devices}
    assert live[0] >= 64 << 20 and live[1] >= 64 << 20, live
    """
    )


def test_f52_expandable_segments_bypass_nothing_or_are_told(runs):
    runs(
        BEGIN
        + """
    part = plug.mem_pool()
    try:
        with plug.use_mem_pool(part):
            tensor = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    except plug.Bypassed as told:
        assert "expandable_segments" in str(told)
        assert not plug.pool().holds(tensor.data_ptr())
    else:
        assert plug.pool().holds(tensor.data_ptr())
    """,
        PYTORCH_ALLOC_CONF="expandable_segments:True",
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
    )


def test_f52_a_pool_of_pytorchs_own_is_told(runs):
    runs(
        BEGIN
        + """
    try:
        with plug.use_mem_pool(torch.cuda.MemPool()):
            tensor = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    except plug.Bypassed:
        pass
    else:
        raise SystemExit("not told")
    """
    )


def test_out_of_memory_is_pytorchs_and_the_pools_words_are_in_the_log(runs):
    said = runs(
        """
        import logging, torch, stitchpool.torch as plug
        logging.basicConfig()
        plug.configure("cuda", capacity=1 << 30)
        with plug.use_mem_pool(plug.mem_pool()):
            try:
                torch.zeros(2 << 30, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                pass
            else:
                raise SystemExit("served")
            small = torch.ones(1 << 20, dtype=torch.uint8, device="cuda")
        assert int(small.sum()) == 1 << 20
        """
    )
    assert "asked for" in said and "ERROR:stitchpool" in said, said


def test_graphs_are_captured_and_replayed_in_it(runs):
    runs(
        BEGIN
        + """
    part, graph = plug.mem_pool(), torch.cuda.CUDAGraph()
    x = torch.ones(1 << 20, device="cuda")
    y = x * 2
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, pool=part.id):
        y = (x * 2 + 1).sum()
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert y.item() == (value * 2 + 1) * (1 << 20)
    """
    )


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "del part",
        "del tensor",
        "del part, tensor",
        "raise SystemExit(0)",
        "import os; os._exit(0)",
        "import sys; sys.modules.pop('stitchpool.torch'); sys.modules.pop('stitchpool')",
        "torch.cuda.empty_cache()",
        "graph = torch.cuda.CUDAGraph()\n    with torch.cuda.graph(graph, pool=part.id): z = tensor * 2",
    ],
)
def test_f50_a_process_ends_well_in_every_order(runs, ending):
    runs(
        BEGIN
        + f"""
    part = plug.mem_pool()
    with plug.use_mem_pool(part):
        tensor = torch.ones(32 << 20, device="cuda")
    {ending}
    """
    )


def test_f50_a_temporary_pool_object(runs):
    runs(
        BEGIN
        + """
    with plug.use_mem_pool(plug.mem_pool()):
        tensor = torch.ones(32 << 20, device="cuda")
    tensor += 1
    assert tensor.max().item() == 2
    """
    )
