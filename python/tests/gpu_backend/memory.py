"""What torch says about its memory: figures, summaries, snapshots, refusals."""

import json
import os
import pickle
import subprocess
import tempfile
import time

import torch
from setting import GIB, MIB, cap, main, same

import viewer


@same
def figures_count_tensors():
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    kept = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    passing = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    del passing
    said = [torch.cuda.memory_allocated() - base, torch.cuda.max_memory_allocated() - base]
    torch.cuda.reset_peak_memory_stats()
    said.append(torch.cuda.max_memory_allocated() - base)
    stats = torch.cuda.memory_stats()
    said += [stats["requested_bytes.all.current"] - base, stats["allocation.large_pool.current"], stats["num_ooms"]]
    assert torch.cuda.max_memory_reserved() >= torch.cuda.max_memory_allocated()
    assert "Allocated memory" in torch.cuda.memory_summary()
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    assert 0 < free_bytes < total_bytes
    del kept
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= 32 * MIB + base
    return said


def out_of_memory_is_said_and_got_over():
    cap(2 * GIB)
    kept = torch.ones(GIB, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(3 * GIB // 2, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        words = str(error)
    for part in ("CUDA out of memory. Tried to allocate 1.50 GiB", "live", "pending", "stranded"):
        assert part in words, words
    assert "expandable_segments" not in words
    assert torch.cuda.memory_stats()["num_ooms"] == 1
    assert int(kept[::4096].sum()) == GIB // 4096
    del kept
    torch.empty(3 * GIB // 2, dtype=torch.uint8, device="cuda")
    return words


def a_snapshot_is_torchs_and_can_be_replayed():
    torch.cuda.memory._record_memory_history(max_entries=20000, stacks="python")
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
    side = torch.cuda.Stream()
    for length in (64, 4096, 700, 9000):
        x = torch.randn(length, 1024, device="cuda", requires_grad=True)
        model(x).sum().backward()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.detach().sum()
        x.record_stream(side)
        del x
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        with open(path, "rb") as file:
            snapshot = pickle.load(file)
        events = snapshot["device_traces"][0]
        kinds = {event["action"] for event in events}
        assert {"alloc", "free_requested", "free_completed", "segment_map"} <= kinds, kinds
        frames = [frame for event in events for frame in event.get("frames", [])]
        assert any(frame["filename"].endswith("memory.py") for frame in frames), frames[:3]
        live = sum(s["allocated_size"] for s in snapshot["segments"])
        assert live == torch.cuda.memory_allocated(), (live, torch.cuda.memory_allocated())
        from torch.cuda import _memory_viz

        _memory_viz.segsum(snapshot), _memory_viz.trace(snapshot)
        assert viewer.opens(snapshot) >= len(events)
        torch.cuda.memory._record_memory_history(enabled=None)
        cli = os.environ.get("STITCHPOOL_CLI")
        if not cli:
            return f"{len(events)} events; not replayed: STITCHPOOL_CLI names no program"
        said = subprocess.run([cli, "replay", path, "--driver", "host", "--check", "--json"], capture_output=True, text=True)
        assert said.returncode == 0, said.stderr + said.stdout
        figures = json.loads(said.stdout.splitlines()[-1])
        return f"{len(events)} events; replayed: {figures['allocs']} allocs, ratio {figures['ratio']:.4f}"


def a_pair_costs_little():
    said = []
    for count in (128, 1 << 18, 5 << 20):
        keep = torch.empty(count, device="cuda")
        address = torch.cuda.caching_allocator_alloc(4 * count)
        torch.cuda.caching_allocator_delete(address)
        begun = time.perf_counter_ns()
        for _ in range(20000):
            torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(4 * count))
        said.append(f"{(time.perf_counter_ns() - begun) / 20000:.0f}")
        del keep
    return f"ns a pair through Python, 512 B, 1 MiB, 20 MiB: {', '.join(said)}"


if __name__ == "__main__":
    main(
        figures_count_tensors,
        out_of_memory_is_said_and_got_over,
        a_snapshot_is_torchs_and_can_be_replayed,
        a_pair_costs_little,
    )
