#!/usr/bin/env python3
"""Makes runs of workloads, each in a fork of this process, which has imported torch and never touches a GPU: so a
run begins as a fresh process does, and need not import anything.

    one.py      # reads requests from its input, one JSON object a line, until that ends

A request has `workload`, `size` (of its batches, beside their usual one), `allocator`, `cap_bytes` (0: none),
`snapshot` (the file that torch's record of all allocations goes to; empty: none is kept) and `socket`, where the run is
led from: it says which process it is and when it is ready, makes a step whenever it is told to, and its figures at the
end.
"""

import contextlib
import gzip
import importlib
import json
import os
import pickle
import socket
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Runs that take turns do so on the same cores: where one shares its silicon with somebody else's work, all meet it
# alike. (With two an offloading run took twice as long: the host's copies need some too.)
CORES = sorted(os.sched_getaffinity(0))[:4]
# The threads that make a step, now one and now the other, have the first of them to themselves: from step to step two
# runs of experts under native then differ by 0.7 % instead of the 3.5 % where the threads wander.
STEPPERS = "pt_autograd"
# After so many steps all threads are there.
SEATED_STEPS = 3
# More than any of these runs makes in the steps that are worth recording.
EVENTS_MAX = 4_000_000
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python" / "tests")]

import determinism  # noqa: E402
import torch  # noqa: E402
import torch.utils.checkpoint  # noqa: E402, F401
from backend_source import backend  # noqa: E402


def settle(request):
    """What the run allocates with; a function that gives the pool's own figures."""
    determinism.demand()
    pool_stats = dict
    if request["allocator"] == "stitchpool":
        backend().install(os.environ.get("STITCHPOOL_LIBRARY"))
        pool_stats = backend().pool_stats
    if request["cap_bytes"]:
        total_bytes = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(request["cap_bytes"] / total_bytes, 0)
    return pool_stats


def figures(pool):
    """What the run held at most, and what does not agree in what it says of its memory."""
    stats = torch.cuda.memory_stats()
    # Active is what may not be given to anybody: live, or freed while another stream may still be using it.
    found = {"peak_live_bytes": stats["allocated_bytes.all.peak"], "peak_active_bytes": stats["active_bytes.all.peak"],
             "peak_held_bytes": stats["reserved_bytes.all.peak"], "backend": torch.cuda.memory.get_allocator_backend(),
             "device_bytes": torch.cuda.mem_get_info()[1], "pool": pool, "wrong": []}
    if not pool:
        return found
    live, held = stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"]
    current = stats["allocated_bytes.all.current"]
    sums = stats["allocated_bytes.all.allocated"] - stats["allocated_bytes.all.freed"]
    found["wrong"] = [words for words, is_so in {
        f"held {held} at most, less than the live {live}": held < live,
        f"allocated less freed is {sums}, and {current} are live": sums != current,
        f"the pool has {pool['live_bytes']} live bytes, torch {current}": pool["live_bytes"] != current,
        f"{stats['num_ooms']} refusals": stats["num_ooms"] > 0,
    }.items() if is_so]
    return found


def run(request, lead):
    pool_stats = settle(request)
    if request["snapshot"]:
        torch.cuda.memory._record_memory_history(context=None, max_entries=EVENTS_MAX)
    draw, step = importlib.import_module(f"workloads.{request['workload']}").prepare(request["size"])
    torch.cuda.synchronize()
    tell(lead, {"ready": True})
    for number, line in enumerate(lead):
        if line.strip() == "end":
            break
        if number < SEATED_STEPS:
            seat_threads()
        data = draw()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        value = step(*data)
        # They are no part of the next step's memory.
        del data
        torch.cuda.synchronize()
        tell(lead, {"ms": 1000 * (time.perf_counter() - begun), "value": float(value)})
    if request["snapshot"]:
        with gzip.open(request["snapshot"], "wb") as file:
            pickle.dump(torch.cuda.memory._snapshot(), file)
    tell(lead, figures(pool_stats()))


def seat_threads():
    """The main thread and those of the backward pass on one core, all others on the rest of them."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            is_stepper = int(task.name) == os.getpid() or (task / "comm").read_text().startswith(STEPPERS)
            os.sched_setaffinity(int(task.name), CORES[:1] if is_stepper else CORES[1:] or CORES)


def tell(lead, words):
    lead.write(json.dumps(words) + "\n")
    lead.flush()


def child(request):
    os.sched_setaffinity(0, CORES)
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(request["socket"])
        lead = line.makefile("rw")
        tell(lead, {"process": os.getpid()})
        try:
            run(request, lead)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what the table shows)
            tell(lead, {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"})
    sys.stdout.flush()
    os._exit(0)


def main():
    for line in sys.stdin:
        if os.fork() == 0:
            child(json.loads(line))
        # Those that have ended meanwhile.
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break


if __name__ == "__main__":
    main()
