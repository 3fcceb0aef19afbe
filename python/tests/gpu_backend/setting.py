"""What every script here begins with: the allocator that ALLOCATOR names, and its cases by name."""

import os
import sys
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
ALLOCATOR = os.environ.get("ALLOCATOR", "stitchpool")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
from backend_source import backend as source  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30


def install(**options):
    source().install(os.environ.get("STITCHPOOL_LIBRARY"), **options)
    return source()


def cap(limit_bytes):
    """Torch may hold so many bytes from now on."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(limit_bytes / total, 0)


def main(*cases):
    named = {case.__name__: case for case in cases}
    if sys.argv[1:] == ["--list"]:
        for name, case in named.items():
            print(name, getattr(case, "rule", "alone"))
        return
    case = named[sys.argv[1]]
    if ALLOCATOR == "stitchpool" and not getattr(case, "installs_itself", False):
        install()
        assert torch.cuda.memory.get_allocator_backend() == "stitchpool"
    words = case()
    if words is not None:
        print(words)


def same(case):
    """Must print the same under torch's own allocator."""
    case.rule = "same"
    return case


def lives(case):
    """Must run out of memory under torch's own allocator, and not here."""
    case.rule = "lives"
    return case


def installs_itself(case):
    case.installs_itself = True
    return case
