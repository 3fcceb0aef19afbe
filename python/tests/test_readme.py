"""The README's programs run as they stand there."""

import pathlib
import re

import pytest

READMES = [pathlib.Path(__file__).parents[2] / "README.md", pathlib.Path(__file__).parents[1] / "README.md"]


def programs():
    found = [
        (path, code)
        for path in READMES
        if path.exists()
        for code in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    ]
    return [
        pytest.param(code, id=f"{path.parent.name}-{number}")
        for number, (path, code) in enumerate(found)
        if "torch" not in code
    ]


@pytest.mark.parametrize("program", programs())
def test_a_program_of_the_readme_runs(program, runs):
    assert runs(program).strip()
