#!/usr/bin/env python3
"""Runs every case of the scripts beside it, each in a process of its own, and prints a table."""

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = ("training", "streams", "graphs", "arenas", "memory", "ends")
LIMIT_S = 120


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


def main():
    wanted = sys.argv[1:]
    failed = 0
    print(f"{'case':<70} {'':<6} {'s':>5}  says", flush=True)
    for script in SCRIPTS:
        status, listed, wrong = run(script, "--list")
        if status != 0:
            print(f"{script:<70} FAILED {wrong[-300:]}")
            failed += 1
            continue
        for case, rule in (line.split() for line in listed.splitlines()):
            if wanted and not any(part in f"{script}.{case}" for part in wanted):
                continue
            begun = time.monotonic()
            good, words = judge(script, case, rule)
            failed += not good
            seconds = time.monotonic() - begun
            print(f"{script + '.' + case:<70} {'ok' if good else 'FAILED':<6} {seconds:>5.1f}  {words}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
