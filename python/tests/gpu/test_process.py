"""Whole processes in the pool, by the pluggable backend: F50, F52, F55, F56, F72."""

import pytest

BEGIN = """
    import torch, stitchpool, stitchpool.torch as plug
    assert plug.enable("pluggable") == "pluggable"
"""


def test_every_tensor_lies_in_the_pool(runs):
    runs(
        BEGIN
        + """
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for step in range(20):
        loss = ((model(torch.randn(256 + step, 512, device="cuda")) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    pool = plug.pool()
    assert all(pool.holds(parameter.data_ptr()) for parameter in model.parameters())
    stats = pool.stats()
    assert stats.frees > 100 and stats.hits > stats.misses
    empty = torch.empty(0, device="cuda")
    assert empty.data_ptr() == 0 and plug.last_refusal() == "" and plug.unknown_frees() == 0
    """
    )


def test_auto_takes_the_full_backend_or_says_why_not(runs):
    said = runs(
        """
        import warnings, torch, stitchpool.torch as plug
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            got = plug.enable()
        words = [str(warning.message) for warning in told if "stitchpool" in str(warning.message)]
        print(got, words)
        assert got == "full" or (got == "pluggable" and "full backend cannot be installed" in words[0])
        assert torch.cuda.memory.get_allocator_backend() == ("stitchpool" if got == "full" else "pluggable")
        assert torch.ones(1 << 20, device="cuda").sum().item() == 1 << 20
        """
    )
    print(said)


def test_record_stream_is_heard(runs):
    runs(
        BEGIN
        + """
    side = torch.cuda.Stream()
    tensor = torch.ones(64 << 20, dtype=torch.uint8, device="cuda")
    # A kernel's first launch loads it, which may wait for what runs.
    tensor.sum(dtype=torch.int64)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(400_000_000)
        total = tensor.sum(dtype=torch.int64)
    tensor.record_stream(side)
    address = tensor.data_ptr()
    del tensor
    pending_bytes = plug.pool().stats().devices[0].pending_bytes
    assert pending_bytes >= 64 << 20, pending_bytes
    other = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    assert other.data_ptr() != address
    side.synchronize()
    assert total.item() == 64 << 20
    """
    )


def test_out_of_memory_is_an_exception_with_the_pools_words(runs):
    runs(
        """
        import torch, stitchpool, stitchpool.torch as plug
        plug.enable("pluggable", capacity=1 << 30)
        for _ in range(3):
            try:
                torch.zeros(2 << 30, dtype=torch.uint8, device="cuda")
            except RuntimeError as error:
                assert f"asked for {2 << 30} bytes" in str(error), error
            else:
                raise SystemExit("served")
        assert int(torch.ones(1 << 20, device="cuda").sum()) == 1 << 20
        """
    )


def test_a_capture_is_refused_with_the_reason(runs):
    runs(
        BEGIN
        + """
    x, graph = torch.ones(1 << 20, device="cuda"), torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            y = x * 2
    except RuntimeError as error:
        assert "captured" in str(error) or "capture" in str(error), error
    else:
        raise SystemExit("captured")
    torch.cuda.synchronize()
    assert (x * 2).sum().item() == 2 << 20
    """
    )


def test_f52_both_devices_are_counted(runs, two_gpus):
    runs(
        BEGIN
        + """
    tensors = [torch.ones(64 << 20, dtype=torch.uint8, device=f"cuda:{device}") for device in (0, 1)]
    live = {device.device: device.live_bytes for device in plug.pool().stats().devices}
    assert live[0] >= 64 << 20 and live[1] >= 64 << 20, live
    assert int(tensors[0].to("cuda:1").sum(dtype=torch.int64)) == int(tensors[1].sum(dtype=torch.int64))
    """
    )


@pytest.mark.parametrize("conf", ["expandable_segments:True", "backend:cudaMallocAsync"])
def test_f52_settings_of_pytorchs_own_allocator_bypass_nothing_or_are_told(runs, conf):
    runs(
        """
        import torch, stitchpool, stitchpool.torch as plug
        try:
            plug.enable("pluggable")
        except stitchpool.InUse as told:
            assert "PYTORCH_ALLOC_CONF" in str(told)
        else:
            tensor = torch.ones(1 << 20, device="cuda")
            assert plug.pool().holds(tensor.data_ptr())
        """,
        PYTORCH_ALLOC_CONF=conf,
        PYTORCH_CUDA_ALLOC_CONF=conf,
    )


def test_f55_the_pools_figures_agree_with_the_driver(runs):
    runs(
        BEGIN
        + """
    torch.cuda.init()
    torch.ones(1, device="cuda")
    free_before, total = torch.cuda.mem_get_info()
    held_before = plug.pool().stats().physical_bytes
    tensor = torch.ones(4 << 30, dtype=torch.uint8, device="cuda")
    free, _ = torch.cuda.mem_get_info()
    stats = plug.pool().stats()
    grown = stats.physical_bytes - held_before
    # What was held before may serve a part of it.
    assert 4 << 30 <= stats.physical_bytes < 5 << 30 and grown >= (4 << 30) - held_before, (grown, held_before)
    assert abs((free_before - free) - grown) < 256 << 20, (free_before - free, grown)
    (device,) = [device for device in stats.devices if device.device == 0]
    assert device.live_bytes <= device.physical_bytes <= total
    del tensor
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    assert after >= free_before - (64 << 20), (after, free_before)
    """
    )


def test_f56_each_call_works_or_says_that_it_does_not(runs):
    runs(
        BEGIN
        + """
    tensor = torch.ones(1 << 20, device="cuda")
    calls = {
        "empty_cache": torch.cuda.empty_cache,
        "mem_get_info": torch.cuda.mem_get_info,
        "memory_allocated": torch.cuda.memory_allocated,
        "max_memory_allocated": torch.cuda.max_memory_allocated,
        "memory_stats": torch.cuda.memory_stats,
        "reset_peak_memory_stats": torch.cuda.reset_peak_memory_stats,
        "memory_snapshot": torch.cuda.memory_snapshot,
        "memory_summary": torch.cuda.memory_summary,
        "MemPool": torch.cuda.MemPool,
    }
    said = {}
    for name, call in calls.items():
        try:
            call()
            said[name] = "works"
        except RuntimeError as error:
            said[name] = str(error).splitlines()[0][:70]
    assert said["empty_cache"] == said["mem_get_info"] == "works", said
    assert all(words == "works" or "not" in words for words in said.values()), said
    assert tensor.sum().item() == 1 << 20
    """
    )


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "del tensor",
        "raise SystemExit(0)",
        "import os; os._exit(0)",
        "import sys; sys.modules.clear()",
        "import atexit; atexit.register(lambda: torch.ones(1 << 20, device='cuda'))",
        "torch.cuda.synchronize(); torch.cuda.empty_cache()",
        "keep = [tensor]; keep.append(keep)",
    ],
)
def test_f50_a_process_ends_well_in_every_order(runs, ending):
    runs(BEGIN + f"\n    tensor = torch.ones(32 << 20, device='cuda')\n    {ending}\n")


def test_f72_too_late_is_an_error(runs):
    runs(
        """
        import torch, stitchpool, stitchpool.torch as plug
        tensor = torch.ones(1, device="cuda")
        try:
            plug.enable("pluggable")
        except stitchpool.InUse as told:
            assert "before anything touches the GPU" in str(told)
        else:
            raise SystemExit("too late")
        """
    )


def test_a_forked_child_is_refused_and_the_parent_goes_on(runs):
    runs(
        BEGIN
        + """
    import os
    tensor = torch.ones(1 << 20, device="cuda")
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1, device="cuda")
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert tensor.sum().item() == 1 << 20
    """
    )
