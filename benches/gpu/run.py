#!/usr/bin/env python3
"""Builds the harness beside PyTorch, runs it on one GPU and prints the table of ratios.

    benches/gpu/pack.sh FOLDER    # where the Rust toolchain is
    benches/gpu/run.py FOLDER     # where the GPU and PyTorch are; needs g++ and nothing of Rust

Replays the traces in traces/ and in FOLDER. All figures go to gpu-bench.json in $OUT, or in FOLDER's build/.
"""
import glob
import gzip
import json
import os
import pickle
import re
import statistics
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ROUNDS = 7
LIMIT_S = 240
OURS, TORCH, ASYNC = "stitchpool", "pytorch", "cudaMallocAsync"


def goals(workload):
    """How many times faster than PyTorch and than cudaMallocAsync the pool shall be; None: no goal."""
    if workload.startswith("trace") or "threads" in workload:
        if "threads 16, one stream" in workload:
            return 10, None
        return (100, None) if workload.endswith("threads 16") else (None, None)
    return (10, 25) if workload.startswith("pair") else (8, 25)


def loaded_libraries():
    """The very files PyTorch has in this process, so that the harness uses the same."""
    import torch

    with open("/proc/self/maps") as maps:
        mapped = set(re.findall(r"(/\S+\.so[.\d]*)$", maps.read(), re.MULTILINE))

    def one(stem):
        found = sorted(path for path in mapped if re.match(rf"{stem}[-.]", os.path.basename(path)))
        if not found:
            sys.exit(f"PyTorch {torch.__version__} has no {stem} loaded: is it a build with CUDA?")
        return found[0]

    return torch, [one("libc10_cuda"), one("libc10"), one("libcudart")]


def include_folders(torch):
    try:
        from torch.utils.cpp_extension import CUDA_HOME as home
    except ImportError:  # it wants setuptools
        home = None
    home = home or os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    site = os.path.dirname(os.path.dirname(torch.__file__))
    cuda = [os.path.join(home, "include"), *glob.glob(os.path.join(home, "targets", "*", "include"))]
    cuda += sorted(glob.glob(os.path.join(site, "nvidia", "*", "include")))
    cuda = [folder for folder in cuda if os.path.exists(os.path.join(folder, "cuda_runtime_api.h"))]
    if not cuda:
        sys.exit(f"no cuda_runtime_api.h under {home} or {site}/nvidia")
    own = os.path.join(os.path.dirname(torch.__file__), "include")
    return [own, cuda[0], os.path.join(ROOT, "crates", "capi", "include"), HERE]


def compile_harness(folder, build):
    torch, libraries = loaded_libraries()
    harness = os.path.join(build, "harness")
    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    command = ["g++", "-std=c++20", "-O2", "-pthread", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    command += [f"-isystem{path}" for path in include_folders(torch)]
    command += [os.path.join(HERE, "main.cc"), "-o", harness, f"-L{folder}", "-lstitchpool_c", *libraries]
    runpaths = dict.fromkeys([folder, *map(os.path.dirname, libraries)])
    command += ["-Wl,--disable-new-dtags,--allow-shlib-undefined", *(f"-Wl,-rpath,{path}" for path in runpaths)]
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(" ".join(command) + "\n" + done.stderr[:6000])
    print(f"PyTorch {torch.__version__}, harness built in {time.monotonic() - begun:.0f} s", flush=True)
    return harness


def flatten(trace, target):
    """A recorded trace as (slot, stream, bytes) of each alloc, and the same with 0 bytes of each free."""
    with gzip.open(trace) as file:
        events = max(pickle.load(file)["device_traces"], key=len)
    ops, live, idle, streams, slots = [], {}, [], {}, 0
    for event in events:
        action, address = event["action"], event["addr"]
        if action == "alloc" and event["size"] > 0 and address not in live:
            if not idle:
                idle.append(slots)
                slots += 1
            stream = streams.setdefault(event["stream"], len(streams))
            live[address] = (idle.pop(), stream)
            ops.append((*live[address], event["size"]))
        elif action == "free_requested" and address in live:
            slot, stream = live.pop(address)
            idle.append(slot)
            ops.append((slot, stream, 0))
    ops += [(slot, stream, 0) for slot, stream in live.values()]
    with open(target, "wb") as file:
        file.write(b"".join(struct.pack("<IIQ", *op) for op in ops))


def flatten_all(folder, build):
    names = {}
    for trace in glob.glob(os.path.join(ROOT, "traces", "*.pickle.gz")) + glob.glob(os.path.join(folder, "*.pickle.gz")):
        names.setdefault(os.path.basename(trace).removesuffix(".pickle.gz"), trace)
    for name, trace in sorted(names.items()):
        flatten(trace, os.path.join(build, name + ".ops"))
    return [f"{name}={os.path.join(build, name + '.ops')}" for name in sorted(names)]


def race(harness, traces):
    """The rows as they come, and why the harness ended early, if it did."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
    process = subprocess.Popen([harness, str(ROUNDS), *traces], stdout=subprocess.PIPE, env=environment, text=True)
    watch = threading.Timer(LIMIT_S, process.kill)
    watch.start()
    machine, rows = {}, []
    begun = time.monotonic()
    for line in process.stdout:
        try:
            row = json.loads(line)
        except ValueError:  # cut, since its time was up
            break
        if "workload" in row:
            print(f"{time.monotonic() - begun:6.1f} s  {row['workload']}", flush=True)
            rows.append(row)
        else:
            machine = row
    status = process.wait()
    watch.cancel()
    return machine, rows, status


def judge(row):
    """Adds medians, medians of the rounds' ratios and the goals to a row."""
    for allocator in row["allocators"].values():
        allocator["median_ns"] = statistics.median(allocator["ns"]) if allocator["ns"] else None
    ours = row["allocators"][OURS]["ns"]
    row["times_faster"], row["goals"] = {}, dict(zip((TORCH, ASYNC), goals(row["workload"])))
    for peer in (TORCH, ASYNC):
        # Round by round: a processor that changes its clock does so for all three.
        ratios = [theirs / mine for mine, theirs in zip(ours, row["allocators"][peer]["ns"])]
        row["times_faster"][peer] = statistics.median(ratios) if ratios else None


def ratio(row, peer):
    value, goal = row["times_faster"][peer], row["goals"][peer]
    shown = "-" if value is None else f"{value:.1f}"
    if goal is None:
        return f"{shown:>7}         "
    verdict = "ok" if value is not None and value >= goal else "LOW"
    return f"{shown:>7} >={goal:<3} {verdict:<3}"


def spread(allocator):
    return (max(allocator["ns"]) - min(allocator["ns"])) / allocator["median_ns"] if allocator["ns"] else 0


def print_table(rows):
    print(f"\nns a pair, and ratios, medians of {ROUNDS} rounds; with several threads, of all together. "
          "misses: ours / PyTorch's in the rounds")
    print(f"{'workload':<38}{OURS:>10}{TORCH:>10}{'Async':>10}   x PyTorch        x Async          spread  misses")
    for row in rows:
        of = row["allocators"]
        cells = "".join(f"{of[n]['median_ns']:>10.1f}" if of[n]["ns"] else f"{'failed':>10}" for n in (OURS, TORCH, ASYNC))
        misses = f"{of[OURS]['misses']} / {of[TORCH]['misses']}"
        print(f"{row['workload']:<38}{cells}  {ratio(row, TORCH)} {ratio(row, ASYNC)} {spread(of[OURS]):>6.0%}  {misses}")
    for row in rows:
        for name, allocator in row["allocators"].items():
            if allocator["failure"]:
                print(f"{row['workload']}, {name}: {allocator['failure'][:300]}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = os.path.abspath(sys.argv[1])
    build = os.path.join(folder, "build")
    os.makedirs(build, exist_ok=True)
    harness = compile_harness(folder, build)
    machine, rows, status = race(harness, flatten_all(folder, build))
    for row in rows:
        judge(row)
    out = os.path.join(os.environ.get("OUT") or build, "gpu-bench.json")
    with open(out, "w") as file:
        json.dump({"machine": machine, "rounds": ROUNDS, "status": status, "rows": rows}, file, indent=1)
    print_table(rows)
    print(f"driver {machine.get('driver')}, PyTorch's backend {machine.get('torch_backend')}, harness ended with {status}")
    failed = status != 0 or machine.get("driver") != "cuda" or any(a["failure"] for r in rows for a in r["allocators"].values())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
