"""Runs every case of cases.py and the files it names in a process of its own.

Needs torch (a build for CUDA; no GPU), g++, and the pool's library: that of the wheel, or what
STITCHPOOL_LIBRARY names. STITCHPOOL_CLI may name the program that replays snapshots.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT_S = 300
BUILD_LIMIT_S = 1800


def run(*arguments, limit_s=LIMIT_S, **environment):
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "cases.py"), *arguments],
        capture_output=True, text=True, timeout=limit_s, env={**os.environ, **environment}, check=False,
    )


def run_case(name):
    with tempfile.TemporaryDirectory() as folder:
        return run(name, STITCHPOOL_SNAPSHOT=os.path.join(folder, "snapshot.pickle"))


class Backend(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("torch") is None:
            raise unittest.SkipTest("torch is not installed")
        if "STITCHPOOL_LIBRARY" not in os.environ and importlib.util.find_spec("stitchpool._native") is None:
            raise unittest.SkipTest("no library: STITCHPOOL_LIBRARY is not set, and the wheel not installed")
        built = run("--build", limit_s=BUILD_LIMIT_S)
        assert built.returncode == 0, built.stderr[-3000:]

    def test_every_case(self):
        names = run("--list").stdout.split()
        self.assertGreater(len(names), 25)
        # Each takes seconds to import torch.
        with ThreadPoolExecutor(os.cpu_count()) as several:
            for name, case in [(name, several.submit(run_case, name)) for name in names]:
                with self.subTest(name):
                    done = case.result()
                    self.assertEqual(done.returncode, 0, done.stderr[-3000:])


if __name__ == "__main__":
    unittest.main()
