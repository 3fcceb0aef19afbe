"""Replays and the command, in the wheel."""

import json
import pathlib
import subprocess
import sys

import pytest
import stitchpool

TRACES = pathlib.Path(__file__).parents[2] / "traces"


@pytest.fixture(scope="module")
def trace():
    traces = sorted(TRACES.glob("*.pickle.gz"), key=lambda path: path.stat().st_size)
    if not traces:
        pytest.skip("no traces here")
    return traces[0]


def test_a_replay_answers_what_the_command_prints(trace):
    figures = stitchpool.replay(trace, "host", scale=0.01)
    command = [
        sys.executable,
        "-m",
        "stitchpool",
        "replay",
        str(trace),
        "--driver",
        "host",
        "--scale",
        "0.01",
        "--json",
    ]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    timed = {"ns_per_pair", "ns_per_pair_warm"}
    assert {key: value for key, value in figures.items() if key not in timed} == {
        key: value for key, value in printed.items() if key not in timed
    }
    assert figures["oom"] == 0 and 1.0 <= figures["ratio"] < 1.1


def test_an_rmm_log_can_be_replayed(tmp_path):
    log = tmp_path / "log.csv"
    rows = [
        f"1,00:00:00:0000{n:02},{action},0x{100 + n % 2},{1 << 20},0"
        for n, action in enumerate(["allocate", "allocate", "free", "free"])
    ]
    log.write_text("Thread,Time,Action,Pointer,Size,Stream\n" + "\n".join(rows) + "\n")
    figures = stitchpool.replay(log, driver="host", check=True)
    assert (figures["allocs"], figures["frees"], figures["wrong_bytes"]) == (2, 2, 0)
    assert figures["checked_bytes"] >= 2 << 20


def test_what_cannot_be_replayed_is_told(tmp_path):
    with pytest.raises(stitchpool.InvalidRequest, match="nowhere.pickle"):
        stitchpool.replay(tmp_path / "nowhere.pickle")
    with pytest.raises(stitchpool.InvalidRequest, match="speed"):
        stitchpool.replay(tmp_path / "nowhere.pickle", speed=2)
    with pytest.raises(stitchpool.InvalidRequest):
        stitchpool.replay(tmp_path / "nowhere.pickle", capacity="much")


def test_the_command_is_there():
    def run(*words):
        return subprocess.run([sys.executable, "-m", "stitchpool", *words], capture_output=True, text=True)

    assert run("--version").stdout.split() == ["stitchpool", stitchpool.__version__]
    assert json.loads(run("info", "--driver", "host", "--json").stdout)
    assert run("no-such-word").returncode == 2
