#!/usr/bin/env python3
"""One rank of a sharded training run; prints one JSON object. sharded.py starts it, and says in its environment
what torchrun would: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.

    ALLOCATOR=native|expandable|stitchpool rank.py fully_shard|fsdp_lora STEPS cuda|cpu
"""

import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALLOCATOR = os.environ.get("ALLOCATOR", "native")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python" / "tests")]

import determinism  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from llama import Layer, Llama, adam, heavy_tailed  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.fsdp.wrap import ModuleWrapPolicy  # noqa: E402
from workloads.llama_lora import add_lora  # noqa: E402

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# 1.1 billion weights; and what a CPU can do in a moment.
SIZES = {
    "cuda": {"width": 2048, "layers": 19, "heads": 32, "inner": 5632, "words": 32000},
    "cpu": {"width": 64, "layers": 3, "heads": 4, "inner": 128, "words": 256},
}
LENGTHS = {"cuda": (256, 4096), "cpu": (8, 64)}
BATCH = 4


def fully_sharded(device, size):
    """All weights are trained, kept in 32 bits and used in 16."""
    with device:
        model = Llama(**size)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = init_device_mesh(device.type, (WORLD,))
    for part in (*model.layers, model):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    return model, adam(model), model.loss


def lora_sharded(device, size):
    """A few are, of a model in 16 bits whose layers are computed again for the backward pass."""
    with device:
        model = add_lora(Llama(**size, recompute=True).bfloat16())
    policy = ModuleWrapPolicy({Layer})
    sharded = FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=True, device_id=device)
    optimizer = adam(sharded)

    def loss(tokens):
        logits = sharded(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return sharded, optimizer, loss


VARIANTS = {"fully_shard": fully_sharded, "fsdp_lora": lora_sharded}


def settle(kind):
    """The rank's device, and the pool's own figures."""
    pool_stats = dict
    if kind == "cpu":
        return torch.device("cpu"), pool_stats, lambda: None
    if ALLOCATOR == "stitchpool":
        from backend_source import backend

        backend().install(os.environ.get("STITCHPOOL_LIBRARY"))
        pool_stats = backend().pool_stats
    device = torch.device("cuda", RANK)
    torch.cuda.set_device(device)
    return device, pool_stats, torch.cuda.synchronize


def main():
    variant, steps, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    device, pool_stats, synchronize = settle(kind)
    determinism.demand()
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", device_id=device if kind == "cuda" else None)
    size = SIZES[kind]
    model, optimizer, loss_of = VARIANTS[variant](device, size)
    weights = sum(weight.numel() for weight in model.parameters())
    dice = torch.Generator().manual_seed(RANK)
    values, times_ms = [], []
    for _ in range(steps):
        tokens = torch.randint(0, size["words"], (BATCH, heavy_tailed(dice, *LENGTHS[kind])), generator=dice).to(device)
        dist.barrier()
        synchronize()
        begun = time.perf_counter()
        loss = loss_of(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        synchronize()
        times_ms.append(1000 * (time.perf_counter() - begun))
        values.append(float(loss.detach()))
    stats = torch.cuda.memory_stats() if kind == "cuda" else {}
    print(json.dumps({
        "rank": RANK, "weights": weights, "values": values, "times_ms": times_ms, "pool": pool_stats(),
        "peak_live_bytes": stats.get("allocated_bytes.all.peak", 0),
        "peak_held_bytes": stats.get("reserved_bytes.all.peak", 0),
        "retries": stats.get("num_alloc_retries", 0),
        "backend": torch.cuda.memory.get_allocator_backend() if kind == "cuda" else "",
    }), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
