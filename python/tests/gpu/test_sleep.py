"""Tensors whose memory leaves their address and comes back."""

import pytest


@pytest.mark.parametrize("whole", [False, True])
def test_an_arenas_tensors_sleep_and_wake(runs, whole):
    runs(
        f"""
        import torch, stitchpool.torch as plug
        if {whole}:
            plug.enable("pluggable")
        weights = plug.arena("weights")
        with weights.use():
            tensor = torch.arange(64 << 20, dtype=torch.int32, device="cuda")
        other = torch.ones(1 << 20, device="cuda")
        address, total = tensor.data_ptr(), tensor.sum(dtype=torch.int64).item()
        assert plug.arena("weights") is weights
        for _ in range(3):
            torch.cuda.synchronize()
            before, _ = torch.cuda.mem_get_info()
            done = weights.suspend()
            after, _ = torch.cuda.mem_get_info()
            assert done.released_bytes >= 256 << 20 and after - before >= 200 << 20
            assert other.sum().item() == 1 << 20
            weights.resume()
            assert tensor.data_ptr() == address and tensor.sum(dtype=torch.int64).item() == total
        """
    )
