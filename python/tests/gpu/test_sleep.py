"""Tensors whose memory leaves their address and comes back."""

import pytest

WAYS = ["", "pluggable", "full"]


@pytest.mark.parametrize("way", WAYS)
def test_an_arenas_tensors_sleep_and_wake(runs, way):
    runs(
        f"""
        import torch, stitchpool.torch as plug
        if {way!r}:
            plug.enable({way!r})
        with plug.arena("weights") as weights:
            tensor = torch.arange(64 << 20, dtype=torch.int32, device="cuda")
        other = torch.ones(1 << 20, device="cuda")
        address, total = tensor.data_ptr(), tensor.sum(dtype=torch.int64).item()
        assert plug.arena("weights") is weights and plug.pool().holds(address)
        for _ in range(3):
            torch.cuda.synchronize()
            before, _ = torch.cuda.mem_get_info()
            done = plug.suspend("weights")
            after, _ = torch.cuda.mem_get_info()
            assert done.released_bytes >= 256 << 20 and after - before >= 200 << 20
            assert plug.pool().stats().suspended_bytes >= 256 << 20
            assert other.sum().item() == 1 << 20
            plug.resume("weights")
            assert tensor.data_ptr() == address and tensor.sum(dtype=torch.int64).item() == total
        """
    )


@pytest.mark.parametrize("way", WAYS)
def test_arenas_nest_and_the_innermost_counts(runs, way):
    runs(
        f"""
        import torch, stitchpool.torch as plug
        if {way!r}:
            plug.enable({way!r})
        new = lambda value: torch.full((32 << 20,), value, dtype=torch.uint8, device="cuda")
        right = lambda tensor, value: bool((tensor == value).all())
        with plug.arena("outer"):
            first = new(1)
            with plug.arena("inner"):
                inner = new(2)
            last = new(3)
        plug.suspend("outer")
        assert right(inner, 2)
        plug.resume("outer")
        plug.suspend("inner")
        assert right(first, 1) and right(last, 3)
        plug.resume("inner")
        assert right(inner, 2)
        """
    )


@pytest.mark.parametrize("way", WAYS)
def test_f50_a_process_ends_well_while_an_arena_sleeps(runs, way):
    runs(
        f"""
        import torch, stitchpool.torch as plug
        if {way!r}:
            plug.enable({way!r})
        with plug.arena("weights"):
            tensor = torch.ones(32 << 20, device="cuda")
        plug.suspend("weights")
        del tensor
        with plug.arena("late"):
            kept = torch.ones(32 << 20, device="cuda")
        plug.suspend("late", "discard")
        """
    )
