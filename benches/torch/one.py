#!/usr/bin/env python3
"""One run of one workload under the allocator that ALLOCATOR names; prints one JSON object.

    ALLOCATOR=native|expandable|async|stitchpool one.py WORKLOAD
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALLOCATOR = os.environ.get("ALLOCATOR", "stitchpool")
CONF = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.pop("PYTORCH_ALLOC_CONF", None)
os.environ.pop("PYTORCH_CUDA_ALLOC_CONF", None)
if ALLOCATOR in CONF:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = CONF[ALLOCATOR]
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python" / "tests")]

import torch  # noqa: E402


def main():
    pool_stats = dict
    if ALLOCATOR == "stitchpool":
        from backend_source import backend

        backend().install(os.environ.get("STITCHPOOL_LIBRARY"))
        pool_stats = backend().pool_stats
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    workload = importlib.import_module(f"workloads.{sys.argv[1]}")
    step = workload.prepare()
    torch.cuda.synchronize()
    values, times_ms = [], []
    for number in range(workload.STEPS):
        begun = time.perf_counter()
        values.append(step(number))
        torch.cuda.synchronize()
        times_ms.append(1000 * (time.perf_counter() - begun))
    stats = torch.cuda.memory_stats()
    print(json.dumps({
        "workload": sys.argv[1],
        "allocator": ALLOCATOR,
        "backend": torch.cuda.memory.get_allocator_backend(),
        "values": [float(value) for value in values],
        "times_ms": times_ms,
        "peak_live_bytes": stats["allocated_bytes.all.peak"],
        "peak_held_bytes": stats["reserved_bytes.all.peak"],
        "pool": pool_stats(),
    }))


if __name__ == "__main__":
    main()
