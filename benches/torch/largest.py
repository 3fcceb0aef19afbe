#!/usr/bin/env python3
"""The largest batch of real runs before they are out of memory, under four allocators that may each hold as much.

    benches/torch/largest.py WHEEL|LIBRARY|FOLDER [--cap-gib 16] [--steps 12] [--budget 540] [WORKLOAD...]

The first argument is as for run.py, and so are the workloads; the table goes to torch-largest.json in $OUT, or beside
here. Batches are tried in sixteenths of the usual one, by halving between one that lived and one that did not; the runs
of a try live at the same time, each with its cap, and see the same lengths. What lives for so many steps may still die
in a later one, by fragments above all: no allocator here is helped by that.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from race import Race, Stable
from run import HERE, OTHERS, OURS, THEIRS, environment

PARTS = 16
# Batches up to so many times the usual one.
TIMES_MAX = 6
USUAL = ("llama_lora", "gpt2_full", "generate", "mixed_resolutions")


class Search:
    """The largest batch of one workload under one allocator, in sixteenths of the usual one."""

    def __init__(self):
        self.lived, self.died = 0, TIMES_MAX * PARTS + 1
        self.end = {}
        # What went wrong other than that memory was short; nothing more is tried then.
        self.failed = ""

    def goes_on(self):
        return not self.failed and self.died - self.lived > 1

    def next(self):
        return (self.lived + self.died) // 2

    def note(self, parts, end):
        said = end.get("failed", "")
        if not said:
            self.lived, self.end = parts, end
        elif "OutOfMemory" in said or "out of memory" in said:
            self.died = parts
        else:
            self.failed = said

    def figures(self):
        live, held = (self.end.get(f"peak_{what}_bytes", 0) for what in ("live", "held"))
        return {"times": self.lived / PARTS, "live": live, "held": held, "failed": self.failed,
                "done": not self.goes_on()}


def search(stable, workload, cap_bytes, steps, until):
    """One search for each allocator, try by try together."""
    searches = {allocator: Search() for allocator in (THEIRS, *OTHERS, OURS)}
    while time.monotonic() < until:
        tries = {allocator: one.next() for allocator, one in searches.items() if one.goes_on()}
        if not tries:
            break
        sizes = {allocator: parts / PARTS for allocator, parts in tries.items()}
        for allocator, end in Race(stable, workload, tries, cap_bytes, sizes=sizes).finish(steps).items():
            searches[allocator].note(tries[allocator], end)
    return {allocator: one.figures() for allocator, one in searches.items()}


def line(workload, allocator, found, theirs):
    name = f"{workload:<20} {allocator:<11}"
    if found["failed"]:
        return f"{name} {found['failed']}"
    beside = f"{found['times'] / theirs['times']:.2f}" if theirs["times"] else "-"
    more = "" if found["done"] else "  or more: no time"
    return (f"{name} {found['times']:>9.4g} {beside:>9} {found['live'] / 2**30:>9.3f} {found['held'] / 2**30:>9.3f}"
            f"{more}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", type=lambda text: Path(text).resolve())
    parser.add_argument("workloads", nargs="*", default=[])
    parser.add_argument("--cap-gib", type=float, default=16)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--budget", type=float, default=540, help="seconds that all of it may take")
    wanted = parser.parse_intermixed_args()
    begun = time.monotonic()
    workloads = wanted.workloads or USUAL
    results = {}
    with tempfile.TemporaryDirectory() as scratch, Stable(environment(wanted.what, scratch), scratch) as stable:
        for number, workload in enumerate(workloads):
            now = time.monotonic()
            share_s = (0.95 * wanted.budget - (now - begun)) / (len(workloads) - number)
            results[workload] = search(stable, workload, int(wanted.cap_gib * 2**30), wanted.steps, now + share_s)
    print(f"the largest batch in {wanted.cap_gib:g} GiB, as times the usual one, for {wanted.steps} steps")
    print(f"{'workload':<20} {'allocator':<11} {'times':>9} {'/ native':>9} {'live GiB':>9} {'held GiB':>9}")
    for workload, by_allocator in results.items():
        for allocator, found in by_allocator.items():
            print(line(workload, allocator, found, by_allocator[THEIRS]))
    least = [workload for workload, by_allocator in results.items()
             if any(one["times"] > by_allocator[OURS]["times"] for one in by_allocator.values())]
    print("stitchpool takes the largest of all" + (f" but in {', '.join(least)}" if least else ""))
    path = Path(os.environ.get("OUT") or HERE) / "torch-largest.json"
    path.write_text(json.dumps(results))
    print(f"{time.monotonic() - begun:.0f} s; all figures in {path}")
    return 1 if least else 0


if __name__ == "__main__":
    sys.exit(main())
