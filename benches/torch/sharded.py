#!/usr/bin/env python3
"""Sharded training of a model of 1.1 billion weights under three allocators; prints one table and the verdicts.

    benches/torch/sharded.py WHEEL|LIBRARY|FOLDER [--ranks 2] [--steps 30] [--rounds 2] [--budget 450] [--pair]
    benches/torch/sharded.py --device cpu [--ranks N]     # at toy size, with gloo: does it run at all?

`fully_shard` trains all weights; `fsdp_lora` is FSDP with LoRA and recomputation. Lengths are heavy-tailed, and
each rank has its own. The ranks are processes, one a GPU, as torchrun starts them. All allocators make the same
steps; a ratio of times is that of the same step of the same rank in a round. Expandable segments take part in the
first round only. Everything goes to torch-sharded.json in $OUT, or beside here.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from race import CONF
from run import BARS, OURS, THEIRS, bound, environment

HERE = Path(__file__).resolve().parent
VARIANTS = ("fully_shard", "fsdp_lora")
OTHER = "expandable"
# The first steps choose kernels and make communicators.
WARM_STEPS = 5
LIMIT_S = 150


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def run(variant, allocator, wanted, env):
    """The figures of every rank; or why there are none."""
    own = {name: value for name, value in env.items() if not name.endswith("ALLOC_CONF")}
    conf = CONF.get(allocator)
    own |= {"PYTORCH_ALLOC_CONF": conf, "PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
    own |= {"ALLOCATOR": allocator, "WORLD_SIZE": str(wanted.ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-W", "ignore", str(HERE / "rank.py"), variant, str(wanted.steps), wanted.device]
    ranks = [subprocess.Popen(command, env={**own, "RANK": str(rank)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(wanted.ranks)]
    ends, deadline = [], time.monotonic() + LIMIT_S
    for process in ranks:
        try:
            said, wrong = process.communicate(timeout=max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            for other in ranks:
                other.kill()
            said, wrong = process.communicate()
            wrong += f"\nno end after {LIMIT_S} s"
        if process.returncode != 0:
            # The others would wait for it.
            for other in ranks:
                other.kill()
            last = wrong.strip().splitlines()[-1:] or ["without a word"]
            ends.append({"failed": f"exit {process.returncode}: {last[0][:160]}"})
        else:
            ends.append(json.loads(said.splitlines()[-1]))
    return ends


def step_ratios(pairs):
    """Of the same step in both runs of each pair that went well."""
    good = [(one["times_ms"], other["times_ms"]) for one, other in pairs if "times_ms" in one and "times_ms" in other]
    return [a / b for mine, theirs in good for a, b in list(zip(mine, theirs, strict=True))[WARM_STEPS:]]


def lines(variant, rounds, rank, bars):
    """What the table says of one rank, and what our run misses."""
    shown, missed = [], []
    theirs = next((one[THEIRS][rank] for one in rounds if "values" in one[THEIRS][rank]), None)
    for allocator in (THEIRS, OURS, OTHER):
        runs = [one[allocator][rank] for one in rounds if allocator in one]
        good = [one for one in runs if "values" in one]
        name = f"{variant:<12} {allocator:<11} {rank:>4}"
        if not good:
            shown.append(f"{name} {runs[0]['failed'] if runs else 'not run: no time'}")
            missed += [f"rank {rank}: {shown[-1][len(name) + 1:]}"] if allocator == OURS else []
            continue
        live, held = (max(one[f"peak_{what}_bytes"] for one in good) for what in ("live", "held"))
        ratio = held / live if live else 0.0
        times_ms = sorted(time_ms for one in good for time_ms in one["times_ms"][WARM_STEPS:])
        equal = theirs is not None and all(one["values"] == theirs["values"] for one in good)
        pairs = step_ratios([(one[allocator][rank], one[THEIRS][rank]) for one in rounds if allocator in one])
        pairs = pairs if allocator != THEIRS else []
        median, high = bound(pairs) if pairs else (1.0, 1.0)
        step = f"{median:.3f} (< {high:.3f})" if pairs else ""
        shown.append(f"{name} {live / 2**30:>8.3f} {held / 2**30:>8.3f} {ratio:>9.4f} "
                     f"{times_ms[len(times_ms) // 2]:>8.1f}  {step:<18} {'equal' if equal else 'DIFFER'}")
        if allocator == OURS:
            found = {"held/live": round(ratio, 4), "step": round(median, 3), "bound": round(high, 3)}
            missed += [f"rank {rank}: {bar} {found[bar]} > {most}" for bar, most in bars.items() if found[bar] > most]
            missed += [] if equal else [f"rank {rank}: losses differ"]
    return shown, missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", type=lambda text: Path(text).resolve())
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--budget", type=float, default=450, help="seconds after which no further run is begun")
    parser.add_argument("--pair", action="store_true", help="leave expandable segments out")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    wanted = parser.parse_args()
    if wanted.device == "cuda" and wanted.what is None:
        parser.error("a GPU's run needs the wheel, library or folder")
    begun = time.monotonic()
    results = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as scratch:
        env = environment(wanted.what, scratch) if wanted.device == "cuda" else dict(os.environ)
        for number in range(wanted.rounds):
            pair = [THEIRS, OURS] if number % 2 == 0 else [OURS, THEIRS]
            for variant in VARIANTS:
                order = [*pair, *([OTHER] if number == 0 and not wanted.pair else [])]
                if time.monotonic() - begun < wanted.budget:
                    results[variant].append({allocator: run(variant, allocator, wanted, env) for allocator in order})
    # A CPU has no such memory, and its times are not what is asked.
    bars = BARS if wanted.device == "cuda" else {}
    print(f"{'run':<12} {'allocator':<11} {'rank':>4} {'live GiB':>8} {'held GiB':>8} {'held/live':>9} {'step ms':>8}  "
          f"{'step / native':<18} losses")
    verdicts = []
    for variant, rounds in results.items():
        missed = [] if rounds else ["not run: no time"]
        for rank in range(wanted.ranks if rounds else 0):
            shown, wrong = lines(variant, rounds, rank, bars)
            print("\n".join(shown))
            missed += wrong
        verdicts.append((f"{variant:<12} {'passes' if not missed else 'MISSES: ' + '; '.join(missed)}", not missed))
    said = [*(f"{bar} <= {most}" for bar, most in bars.items()), "equal losses"]
    print(f"\nstitchpool against the bars: {', '.join(said)}")
    print("\n".join(words for words, _ in verdicts))
    path = Path(os.environ.get("OUT") or HERE) / "torch-sharded.json"
    path.write_text(json.dumps(results))
    print(f"{time.monotonic() - begun:.0f} s; all figures in {path}")
    return 0 if all(good for _, good in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
