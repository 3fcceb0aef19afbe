"""Runs of one workload that take turns, led over sockets; see one.py for what a run does."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONF = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
# For any one answer of a run.
LIMIT_S = 60


class Stable:
    """Processes that have imported torch, one for each setting that torch reads while it is imported."""

    def __init__(self, environment, scratch):
        self.environment = environment
        self.address = os.path.join(scratch, "lead")
        self.log = open(os.path.join(os.environ.get("OUT") or scratch, "torch-runs.log"), "w")
        self.servers = {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.address)
        self.listener.listen()
        self.listener.settimeout(LIMIT_S)
        # How many steps the runs of a workload make.
        self.steps = {}

    def __enter__(self):
        for conf in ("", *CONF.values()):
            own = {name: value for name, value in self.environment.items() if not name.endswith("ALLOC_CONF")}
            own |= {"PYTORCH_ALLOC_CONF": conf, "PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
            self.servers[conf] = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(HERE / "one.py")], env=own, stdin=subprocess.PIPE, text=True,
                stdout=self.log, stderr=self.log)
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.stdin.close()
            server.wait(LIMIT_S)
        self.listener.close()
        self.log.close()

    def start(self, workload, allocator, size, cap_bytes, snapshot):
        """A new run's socket."""
        server = self.servers[CONF.get(allocator, "")]
        request = {"workload": workload, "allocator": allocator, "size": size, "cap_bytes": cap_bytes,
                   "snapshot": snapshot, "socket": self.address}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        line, _ = self.listener.accept()
        line.settimeout(LIMIT_S)
        return line


class Run:
    """One run, from here."""

    def __init__(self, line):
        self.line, self.file = line, line.makefile("rw")
        self.process = json.loads(self.file.readline())["process"]
        self.times_ms, self.values = [], []
        self.end = None

    def hear(self):
        """Its next answer; None: it has failed, or ended."""
        try:
            answer = json.loads(self.file.readline() or '{"failed": "it ended without a word"}')
        except (OSError, ValueError) as error:
            answer = {"failed": f"no answer: {error}"}
            self.kill()
        if "failed" in answer:
            self.end = {"failed": f"step {len(self.times_ms)}: {answer['failed']}"}
            return None
        return answer

    def kill(self):
        try:
            os.kill(self.process, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def tell(self, word):
        try:
            self.file.write(word + "\n")
            self.file.flush()
        except OSError:
            pass  # the answer, or that there is none, says why

    def step(self):
        self.tell("step")
        answer = self.hear()
        if answer is not None:
            self.times_ms.append(answer["ms"])
            self.values.append(answer["value"])

    def finish(self):
        if self.end is None:
            self.tell("end")
            answer = self.hear()
            if answer is not None:
                self.end = {**answer, "times_ms": self.times_ms, "values": self.values}
        self.file.close()
        self.line.close()
        return self.end


class Race:
    """One round of a workload: a run under each allocator, of its usual size unless `sizes` tells another."""

    def __init__(self, stable, workload, allocators, cap_bytes=0, snapshot="", sizes=None):
        self.runs = {}
        for allocator in allocators:
            size = (sizes or {}).get(allocator, 1)
            self.runs[allocator] = Run(stable.start(workload, allocator, size, cap_bytes, snapshot))
        for run in self.runs.values():
            run.hear()
        self.steps = 0

    def finish(self, steps, least_steps=None, share_s=0.0):
        """Makes so many steps; where `least_steps` will do, as many of them as fit into a run's share of time."""
        begun = time.monotonic()
        least_steps = steps if least_steps is None else least_steps
        while self.goes_on(steps, least_steps, share_s, time.monotonic() - begun):
            order = list(self.runs.values())
            turn = self.steps % len(order)
            for run in order[turn:] + order[:turn]:
                if run.end is None:
                    run.step()
            self.steps += 1
        return {allocator: run.finish() for allocator, run in self.runs.items()}

    def goes_on(self, steps, least_steps, share_s, seconds):
        running = sum(run.end is None for run in self.runs.values())
        return running > 0 and self.steps < steps and (self.steps < least_steps or seconds < share_s * running)
