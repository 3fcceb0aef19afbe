"""The GPU's tests are skipped, with the reason, where there is none."""

import importlib.util

import pytest


def why_not() -> str:
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    import torch

    return "" if torch.cuda.is_available() else "no GPU here"


def pytest_collection_modifyitems(items):
    here = [item for item in items if "gpu" in item.path.parts]
    reason = why_not() if here else ""
    for item in here:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def two_gpus():
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("two GPUs are needed")
