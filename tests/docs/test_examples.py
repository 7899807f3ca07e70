"""Every file under examples/ is a program that runs to its end."""

import subprocess
import sys
from pathlib import Path

import pytest
from markdown import ROOT, name

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_an_example_runs(example: Path, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_an_example_says_what_it_shows(example: Path):
    assert example.read_text().startswith('"""')
