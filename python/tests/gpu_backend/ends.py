"""Beginnings and ends: exit in any order, forks, and memory from before."""

import os
import sys
import threading

import torch
from setting import MIB, install, installs_itself, main

KEPT = []


def live_tensors_at_exit():
    KEPT.append(torch.ones(MIB, device="cuda"))
    sys.modules["kept too"] = torch.ones(MIB, device="cuda")


def a_live_graph_at_exit():
    x = torch.ones(1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    graph.replay()
    KEPT.extend((graph, x, y))


def a_live_memory_pool_at_exit():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        KEPT.append(torch.ones(MIB, device="cuda"))
    KEPT.append(pool)


def a_memory_pool_that_goes_first():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = torch.ones(MIB, device="cuda")
    del pool
    torch.cuda.empty_cache()
    assert float(kept.sum()) == MIB
    KEPT.append(kept)


def an_arena_that_sleeps_at_exit():
    plug = sys.modules.get("stitchpool.torch")
    if plug is None:
        return "not asked: the Python module is not installed"
    with plug.arena("weights"):
        KEPT.append(torch.ones(MIB, device="cuda"))
    plug.suspend("weights")


def a_capture_that_failed_before_the_exit():
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            KEPT.append(torch.empty(MIB, device="cuda"))
            torch.cuda.synchronize()
    except RuntimeError:
        pass
    else:
        raise AssertionError("a synchronise cannot be captured")


def freed_by_what_python_runs_last():
    """F63: the driver may be shut down before the last destructor runs."""
    import atexit
    import weakref

    kept = torch.ones(MIB, device="cuda")
    weakref.finalize(torch, lambda held: held.clear(), [kept])
    atexit.register(lambda held: held.clear(), [torch.ones(MIB, device="cuda")])
    sys.modules["the very last"] = type("Last", (), {"__del__": lambda self: setattr(self, "kept", None)})()
    sys.modules["the very last"].kept = kept


def a_thread_that_frees_at_the_end():
    kept = [torch.ones(MIB, device="cuda")]
    thread = threading.Thread(target=lambda: (threading.main_thread().join(), kept.clear()))
    thread.start()


def a_cycle_that_python_never_collects():
    import gc

    gc.disable()
    cycle = [torch.ones(MIB, device="cuda")]
    cycle.append(cycle)


def a_child_of_a_fork():
    kept = torch.ones(MIB, device="cuda")
    child = os.fork()
    if child == 0:
        del kept
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert float(kept.sum()) == MIB


@installs_itself
def a_fork_before_anything():
    install()
    child = os.fork()
    if child == 0:
        os._exit(0 if float(torch.ones(4, device="cuda").sum()) == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0, "CUDA was not initialised yet, so the child may use it"


@installs_itself
def installing_too_late_is_refused():
    torch.ones(4, device="cuda")
    try:
        install()
    except RuntimeError as error:
        assert "already" in str(error), error
    else:
        raise AssertionError("installed after CUDA was initialised")


def memory_from_while_it_was_not_enabled():
    torch.cuda.caching_allocator_enable(False)
    plain = torch.full((MIB,), 5, device="cuda")
    torch.cuda.caching_allocator_enable(True)
    pooled = torch.full((MIB,), 6, device="cuda")
    assert float(plain.sum()) == 5 * MIB and float(pooled.sum()) == 6 * MIB
    del plain
    torch.cuda.caching_allocator_enable(False)
    del pooled
    torch.cuda.caching_allocator_enable(True)
    assert torch.cuda.memory_allocated() == 0


def devices_that_nobody_uses_have_no_context():
    if torch.cuda.device_count() < 2:
        return "one GPU: not asked"
    torch.ones(MIB, device="cuda:0")
    assert not torch._C._cuda_hasPrimaryContext(1)
    there = torch.full((MIB,), 3, device="cuda:1")
    here = there.to("cuda:0")
    strided = torch.empty(MIB // 2, device="cuda:0").copy_(there[::2])
    assert float(here.sum()) == 3 * MIB and float(strided.sum()) == 3 * MIB / 2
    assert torch.cuda.memory_allocated(1) == 4 * MIB
    return "two GPUs"


if __name__ == "__main__":
    main(
        live_tensors_at_exit, a_live_graph_at_exit, a_live_memory_pool_at_exit, a_memory_pool_that_goes_first,
        an_arena_that_sleeps_at_exit, a_capture_that_failed_before_the_exit, freed_by_what_python_runs_last,
        a_thread_that_frees_at_the_end, a_cycle_that_python_never_collects, a_child_of_a_fork, a_fork_before_anything,
        installing_too_late_is_refused, memory_from_while_it_was_not_enabled,
        devices_that_nobody_uses_have_no_context,
    )
