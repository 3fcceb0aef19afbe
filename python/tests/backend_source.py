"""Where tests and benches get the PyTorch backend from: the installed package, or, where STITCHPOOL_LIBRARY
names the pool's library, this repository's sources alone, without the Python module.

As a program it builds the shim.
"""

import importlib.util
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "stitchpool" / "torch" / "backend"
NAME = "stitchpool_backend_source"


def backend():
    if not os.environ.get("STITCHPOOL_LIBRARY"):
        from stitchpool.torch import backend as installed

        return installed
    if NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            NAME, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
        )
        sys.modules[NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[NAME])
    return sys.modules[NAME]


if __name__ == "__main__":
    import torch

    print(f"torch {torch.__version__}, {backend().build.shim()}")
