#!/usr/bin/env python3
"""Real runs of small models under four allocators, one process a run, interleaved; prints one table.

    benches/torch/run.py WHEEL|LIBRARY|FOLDER [--rounds 2] [--budget 480] [WORKLOAD...]

The first argument is as for tests/gpu/torch.sh. Everything goes to torch-runs.json in $OUT, or beside here.
A ratio of step times is the median over the steps of both runs of a pair, step by step (so the same work), with
the bound that 95 % of 2,000 bootstrap draws do not pass.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKLOADS = ("llama_lora", "gpt2_full", "experts", "generate", "offload", "mixed_resolutions", "graph_net",
             "generate_then_train")
OURS, THEIRS = "stitchpool", "native"
OTHERS = ("expandable", "async")
LIMIT_S = 45
# The first steps choose kernels and fill caches.
WARM_STEPS = 3
DRAWS = 2000
BUILD = HERE.parent.parent / "python" / "tests" / "backend_source.py"


def environment(what, scratch):
    own = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if what.suffix == ".whl":
        site = os.path.join(scratch, "site")
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, str(what)]
        subprocess.run(install, check=True)
        own["PYTHONPATH"] = site
    elif what.suffix == ".so":
        own["STITCHPOOL_LIBRARY"] = str(what)
    else:
        own["PYTHONPATH"] = str(what)
    own.setdefault("STITCHPOOL_CACHE", os.path.join(scratch, "cache"))
    # Now, so that no run has to.
    subprocess.run([sys.executable, "-W", "ignore", str(BUILD)], check=True, env=own, stdout=subprocess.DEVNULL)
    return own


def run(workload, allocator, env):
    command = [sys.executable, "-W", "ignore", str(HERE / "one.py"), workload]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              env={**env, "ALLOCATOR": allocator})
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {LIMIT_S} s"}
    if done.returncode != 0:
        return {"failed": f"exit {done.returncode}: {done.stderr.strip()[-300:]}"}
    return json.loads(done.stdout.splitlines()[-1])


def step_ratios(ours, theirs):
    """Ratios of the same step in both runs of each pair."""
    pairs = zip(ours, theirs, strict=False)
    return [a / b for mine, other in pairs
            for a, b in list(zip(mine["times_ms"], other["times_ms"], strict=True))[WARM_STEPS:]]


def bound(ratios):
    """The median, and what 95 % of bootstrap medians do not pass."""
    dice = random.Random(0)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return statistics.median(ratios), medians[int(0.95 * DRAWS)]


def row(workload, runs):
    lines = []
    theirs = [one for one in runs[THEIRS] if "failed" not in one]
    for allocator, all_runs in runs.items():
        good = [one for one in all_runs if "failed" not in one]
        if not good:
            lines.append(f"{workload:<20} {allocator:<11} {all_runs[0]['failed'] if all_runs else 'not run: no time'}")
            continue
        live = max(one["peak_live_bytes"] for one in good)
        held = max(one["peak_held_bytes"] for one in good)
        equal = "" if not theirs else "equal" if all(one["values"] == theirs[0]["values"] for one in good) else "DIFFER"
        time_words = ""
        if theirs and allocator != THEIRS:
            median, high = bound(step_ratios(good, theirs))
            time_words = f"{median:.3f} (95 %: < {high:.3f})"
        step_ms = statistics.median(good[0]["times_ms"][WARM_STEPS:])
        lines.append(f"{workload:<20} {allocator:<11} {live / 2**30:>8.3f} {held / 2**30:>8.3f} {held / live:>8.4f} "
                     f"{step_ms:>8.1f}  {time_words:<24} {equal}")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", type=lambda text: Path(text).resolve())
    parser.add_argument("workloads", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--budget", type=float, default=480, help="seconds after which no further run is begun")
    wanted = parser.parse_args()
    results = {}
    begun = time.monotonic()
    print(f"{'workload':<20} {'allocator':<11} {'live GiB':>8} {'held GiB':>8} {'held/live':>8} {'step ms':>8}  "
          f"{'time against native':<24} values", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        env = environment(wanted.what, scratch)
        for workload in wanted.workloads or WORKLOADS:
            runs = results.setdefault(workload, {name: [] for name in (THEIRS, OURS, *OTHERS)})
            pair = [THEIRS, OURS]
            order = [name for number in range(wanted.rounds) for name in (pair if number % 2 == 0 else pair[::-1])]
            for allocator in (*order, *OTHERS):
                if time.monotonic() - begun < wanted.budget:
                    runs[allocator].append(run(workload, allocator, env))
            print("\n".join(row(workload, runs)), flush=True)
    path = Path(os.environ.get("OUT") or HERE) / "torch-runs.json"
    path.write_text(json.dumps(results))
    print(f"{time.monotonic() - begun:.0f} s; all figures in {path}")
    ours = [one for runs in results.values() for one in runs[OURS]]
    return 1 if not ours or any("failed" in one for one in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
