"""Arenas under the whole backend: tensors sleep and wake by name, beside graphs, streams and other arenas."""

import sys
import threading

import torch
from setting import GIB, MIB, cap, main
from torch import nn


def face():
    """stitchpool.torch; None where the backend runs from its sources, with another library and no Python module."""
    return sys.modules.get("stitchpool.torch")


NOT_ASKED = "not asked: the Python module is not installed"


def a_model_sleeps_and_trains_on():
    plug = face()
    if plug is None:
        return NOT_ASKED
    torch.manual_seed(0)
    with plug.arena("model"):
        model = nn.Sequential(nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 2048)).cuda()
        # What cuBLAS works in is made here, and must not sleep with the model.
        model(torch.ones(8, 2048, device="cuda")).sum().backward()
        model.zero_grad(set_to_none=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    losses = []
    for turn in range(6):
        if turn % 2:
            addresses = [weight.data_ptr() for weight in model.parameters()]
            before = torch.cuda.memory_reserved()
            asleep = plug.suspend("model").released_bytes
            assert torch.cuda.memory_reserved() <= before - asleep
            assert torch.cuda.memory_allocated() >= asleep, "tensors count, asleep or awake"
            assert float((torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")).sum()) == 64**3
            plug.resume("model")
            assert addresses == [weight.data_ptr() for weight in model.parameters()]
        loss = (model(torch.ones(64, 2048, device="cuda")) - 1).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True), losses
    return f"{asleep // MIB} MiB asleep"


def a_graph_replays_with_weights_that_slept():
    plug = face()
    if plug is None:
        return NOT_ASKED
    with plug.arena("weights"):
        weight = torch.randn(1024, 1024, device="cuda")
    x = torch.randn(256, 1024, device="cuda")
    for _ in range(3):
        y = x @ weight
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.relu(x @ weight)
    for seed in range(3):
        torch.manual_seed(seed)
        plug.suspend("weights")
        disturb = [torch.full((MIB * 8,), 7, dtype=torch.uint8, device="cuda") for _ in range(32)]
        del disturb
        plug.resume("weights")
        x.copy_(torch.randn(256, 1024, device="cuda"))
        graph.replay()
        torch.testing.assert_close(y, torch.relu(x @ weight))


def threads_and_streams_keep_apart():
    plug = face()
    if plug is None:
        return NOT_ASKED
    side, elsewhere = torch.cuda.Stream(), []
    new = lambda value: torch.full((64 * MIB,), value, dtype=torch.uint8, device="cuda")
    with plug.arena("mine"):
        with torch.cuda.stream(side):
            mine = new(1)
        mine.record_stream(torch.cuda.current_stream())
        thread = threading.Thread(target=lambda: elsewhere.append(new(2)))
        thread.start(), thread.join()
    torch.cuda.synchronize()
    assert 64 * MIB <= plug.suspend("mine").released_bytes < 128 * MIB
    assert int(elsewhere[0].max()) == 2
    plug.resume("mine")
    assert int(mine.min()) == 1


def freed_while_it_sleeps():
    plug = face()
    if plug is None:
        return NOT_ASKED
    with plug.arena("short"):
        gone, kept = (torch.full((64 * MIB,), value, dtype=torch.uint8, device="cuda") for value in (1, 2))
    plug.suspend("short")
    del gone
    torch.cuda.empty_cache()
    plug.resume("short")
    assert int(kept.min()) == 2 and plug.pool().stats().suspended_bytes == 0


def f58_generation_and_training_take_turns():
    """Two sides of 5 GiB each in 8 GiB, as colocated reinforcement learning has them: whoever does not run sleeps."""
    plug = face()
    if plug is None:
        return NOT_ASKED
    cap(8 * GIB)
    with plug.arena("training"):
        state = [torch.full((GIB // 2,), number, dtype=torch.uint8, device="cuda") for number in range(10)]
    held = []
    for cycle in range(12):
        plug.suspend("training")
        with plug.arena("generation"):
            cache = [torch.empty((160 + 7 * cycle) * MIB, dtype=torch.uint8, device="cuda") for _ in range(20)]
        for block in cache:
            block.fill_(cycle)
        del cache, block
        torch.cuda.empty_cache()
        plug.resume("training")
        activations = [torch.empty((64 + cycle) * MIB, dtype=torch.uint8, device="cuda").fill_(1) for _ in range(16)]
        assert all(int(part[:: 1 << 20].max()) == number for number, part in enumerate(state))
        del activations
        torch.cuda.empty_cache()
        held.append(torch.cuda.memory_reserved())
    assert max(held) == min(held), "a cycle leaves nothing behind"
    return f"12 cycles; held between them {held[0] / GIB:.3f} GiB, live {torch.cuda.memory_allocated() / GIB:.3f}"


if __name__ == "__main__":
    main(
        a_model_sleeps_and_trains_on,
        a_graph_replays_with_weights_that_slept,
        threads_and_streams_keep_apart,
        freed_while_it_sleeps,
        f58_generation_and_training_take_turns,
    )
