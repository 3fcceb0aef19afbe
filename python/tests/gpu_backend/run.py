#!/usr/bin/env python3
"""Runs every case of the scripts beside it, each in a process of its own, some side by side, and prints a table."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = ("training", "streams", "graphs", "arenas", "memory", "ends")
LIMIT_S = 120
# What a case takes is mostly the import of torch.
SIDE_BY_SIDE = 5


def run(script, *arguments, allocator="stitchpool"):
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(HERE / f"{script}.py"), *arguments],
            capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, "ALLOCATOR": allocator}, check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"no end after {LIMIT_S} s"
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def judge(script, case, rule):
    status, said, wrong = run(script, case)
    if status != 0:
        return False, f"exit {status}: {' | '.join(wrong.splitlines()[-3:])}"
    if rule == "same":
        other = run(script, case, allocator="native")
        if other[:2] != (0, said):
            return False, f"differs: {said[:80]} / native: {other[0]} {other[1][:80]} {other[2][-200:]}"
        return True, "as with torch's own allocator"
    if rule == "lives":
        status, _, wrong = run(script, case, allocator="native")
        return (status != 0 and "OutOfMemoryError" in wrong), f"{said}; native: {wrong.splitlines()[-1][:60] if wrong else status}"
    return True, said.splitlines()[-1][:110] if said else ""


def timed(script, case, rule):
    begun = time.monotonic()
    good, words = judge(script, case, rule)
    return good, time.monotonic() - begun, words


def cases(wanted):
    """Every case as script, name and rule; and the scripts that could not say theirs."""
    found, wrong = [], []
    with ThreadPoolExecutor(len(SCRIPTS)) as workers:
        for script, (status, listed, said) in zip(SCRIPTS, workers.map(lambda one: run(one, "--list"), SCRIPTS)):
            wrong += [f"{script:<70} FAILED {said[-300:]}"] if status != 0 else []
            found += [(script, *line.split()) for line in listed.splitlines()] if status == 0 else []
    return [one for one in found if not wanted or any(part in f"{one[0]}.{one[1]}" for part in wanted)], wrong


def main():
    listed, wrong = cases(sys.argv[1:])
    failed = len(wrong)
    print("\n".join([f"{'case':<70} {'':<6} {'s':>5}  says", *wrong]), flush=True)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as workers:
        for (script, case, _), (good, seconds, words) in zip(listed, workers.map(lambda one: timed(*one), listed)):
            failed += not good
            print(f"{script + '.' + case:<70} {'ok' if good else 'FAILED':<6} {seconds:>5.1f}  {words}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
