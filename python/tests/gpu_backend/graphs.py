"""CUDA graphs, torch.cuda.MemPool and cudagraph trees."""

import torch
from setting import MIB, main
from torch import nn


def disturb():
    """What an application does between replays."""
    blocks = [torch.full((MIB * (1 + number % 9),), 77, dtype=torch.uint8, device="cuda") for number in range(64)]
    del blocks
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def warm(act):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            act()
    torch.cuda.current_stream().wait_stream(side)


def chain(x):
    for _ in range(6):
        y = torch.relu(x @ x.t()) @ x
        x = y / y.norm()
    return x


def a_graph_replays_right_whatever_happens_between():
    static = torch.randn(512, 1024, device="cuda")
    warm(lambda: chain(static))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = chain(static)
    for seed in range(6):
        torch.manual_seed(seed)
        fresh = torch.randn(512, 1024, device="cuda")
        expected = chain(fresh)
        static.copy_(fresh)
        graph.replay()
        torch.testing.assert_close(result, expected)
        disturb()
    held = torch.cuda.memory_reserved()
    del result
    graph.reset()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < held, "a released graph gives its memory back"


def graphs_share_a_pool():
    static = torch.randn(256, 256, device="cuda")
    warm(lambda: chain(static))
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        middle = chain(static)
    with torch.cuda.graph(second, pool=first.pool()):
        last = chain(middle)
    for seed in range(3):
        torch.manual_seed(seed)
        static.copy_(torch.randn(256, 256, device="cuda"))
        first.replay()
        second.replay()
        torch.testing.assert_close(last, chain(chain(static)))
        disturb()


def graphed_callables_train():
    def train(graphed):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
        call = torch.cuda.make_graphed_callables(model, (torch.randn(64, 256, device="cuda"),)) if graphed else model
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        torch.manual_seed(1)
        losses = []
        for _ in range(10):
            loss = (call(torch.randn(64, 256, device="cuda")) - 1).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            disturb()
        return losses

    torch.testing.assert_close(train(True), train(False))


def a_capture_that_fails_leaves_the_pool_whole():
    torch.empty(0, device="cuda")
    torch.cuda.empty_cache()
    held = torch.cuda.memory_reserved()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            torch.empty(8 * MIB, device="cuda")
            torch.cuda.synchronize()
    except RuntimeError:
        pass
    else:
        raise AssertionError("a synchronise cannot be captured")
    del graph
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= held + 2 * MIB, "what the failed capture had goes back"
    block = torch.ones(64 * MIB, device="cuda")
    assert float(block.sum()) == 64 * MIB
    # No random numbers: torch's generator goes on believing that the failed capture is open.
    static = torch.ones(512, 1024, device="cuda")
    warm(lambda: chain(static))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = chain(static)
    graph.replay()
    torch.testing.assert_close(result, chain(static))


def a_side_stream_inside_a_capture():
    static = torch.randn(512, 512, device="cuda")
    side = torch.cuda.Stream()

    def act():
        left = static * 2
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            right = left @ left
            left.record_stream(side)
        del left
        other = torch.relu(static) @ static
        torch.cuda.current_stream().wait_stream(side)
        right.record_stream(torch.cuda.current_stream())
        return right + other

    warm(act)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = act()
    for seed in range(4):
        torch.manual_seed(seed)
        static.copy_(torch.randn(512, 512, device="cuda"))
        graph.replay()
        torch.testing.assert_close(result, (static * 2) @ (static * 2) + torch.relu(static) @ static)
        disturb()


def memory_of_another_stream_is_not_waited_for_in_a_capture():
    """What a busy stream freed cannot be had without a wait, which a capture does not stand."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((256 * MIB) / total, 0)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        block = torch.zeros(200 * MIB, dtype=torch.uint8, device="cuda")
        torch.cuda._sleep(2_000_000_000)
        del block
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        try:
            torch.empty(150 * MIB, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            refused = True
        else:
            refused = False
        small = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
        graph.capture_end()
    assert refused, "it was served from memory that a busy stream may still write to"
    small.fill_(9)
    graph.replay()
    torch.cuda.synchronize()
    assert int(small.max()) == 0, "the capture was valid all along"


def a_memory_pool_keeps_to_itself():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.ones(4 * MIB, dtype=torch.uint8, device="cuda")
    outside = torch.ones(4 * MIB, dtype=torch.uint8, device="cuda")
    segments = pool.snapshot()
    def holds(tensor):
        return any(s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"] for s in segments)

    assert holds(inside) and not holds(outside)
    assert pool.use_count() == 1
    del inside
    with torch.cuda.use_mem_pool(pool):
        again = torch.ones(4 * MIB, dtype=torch.uint8, device="cuda")
    assert holds(again)
    del again, pool


def graph_trees_run():
    @torch.compile(backend="cudagraphs")
    def act(x, y):
        return chain(x) + y.sin()

    for seed in range(8):
        torch.manual_seed(seed)
        x, y = torch.randn(128, 256, device="cuda"), torch.randn(128, 256, device="cuda")
        torch.testing.assert_close(act(x, y), chain(x) + y.sin())
        disturb()


def graph_trees_branch_with_all_their_checks():
    """A branch sets the pool back to a checkpoint; torch then asks whether exactly the blocks live that it knows."""
    from torch._inductor import config

    config.triton.fast_path_cudagraph_asserts = config.triton.slow_path_cudagraph_asserts = True
    left, right = (lambda x: x.sin() + 1), (lambda x: chain(x.cos()))
    first, either, other = (torch.compile(act, backend="cudagraphs") for act in (chain, left, right))
    for seed in range(12):
        torch.manual_seed(seed)
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.randn(128, 256, device="cuda")
        graphed, eager = (either, left) if seed % 3 else (other, right)
        torch.testing.assert_close(graphed(first(x)), eager(chain(x)))
        disturb()


if __name__ == "__main__":
    main(
        a_graph_replays_right_whatever_happens_between,
        graphs_share_a_pool,
        graphed_callables_train,
        a_capture_that_fails_leaves_the_pool_whole,
        a_side_stream_inside_a_capture,
        memory_of_another_stream_is_not_waited_for_in_a_capture,
        a_memory_pool_keeps_to_itself,
        graph_trees_run,
        graph_trees_branch_with_all_their_checks,
    )
