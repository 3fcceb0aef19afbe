"""What the tests share: pools on the host driver, and programs in interpreters of their own."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest
import stitchpool

MIB = 1 << 20


@pytest.fixture
def pool():
    with stitchpool.Pool("host", capacity=256 * MIB) as pool:
        yield pool


@pytest.fixture
def runs():
    """Runs a program in an interpreter of its own, which must end well and in time; answers what it printed."""
    limit_s = float(os.environ.get("STITCHPOOL_CASE_S", "120"))

    def run(program: str, **environment: str) -> str:
        words = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s, env={**os.environ, **environment})
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="session")
def catcher(tmp_path_factory):
    """A library in C++, as PyTorch is: calls a function as PyTorch does, and catches what it throws."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("catcher")
    source, library = folder / "catcher.cpp", folder / "catcher.so"
    source.write_text(CATCHER)
    subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return str(library)


CATCHER = r"""
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
extern "C" void fail(const char *, const char *, uint32_t, const char *words) { throw std::runtime_error(words); }
extern "C" int caught(void *(*malloc)(size_t, int, void *), size_t bytes, char *words) {
    std::function<void *(size_t, int, void *)> function = malloc;
    try {
        return function(bytes, 0, nullptr) ? 2 : 0;
    } catch (const std::exception &error) {
        std::strncpy(words, error.what(), 4095);
        return 1;
    }
}
"""
