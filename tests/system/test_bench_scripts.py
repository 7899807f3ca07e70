"""The measurements of bench/ start and come to an end. What they measure is not judged here."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize(
    ("script", "last"),
    [
        ("sqlite_hot_path.py --jobs 40 --batch 20 --statements", "together"),
        ("sqlite_idle_hops.py --jobs 8", "worker: handler begins"),
        ("worker_hot_path.py --jobs 200", "CPU per job"),
        ("observing.py --jobs 500 --pairs 1", "of the jobs/s"),
        ("metrics_scrape.py --spans 500", "slowest scrape"),
        ("worker_hot_path.py --jobs 200 --tracing sampled", '"bounds": null'),
    ],
)
def test_a_measurement_runs(script: str, last: str) -> None:
    name, *options = script.split()
    done = subprocess.run(
        [sys.executable, BENCH / name, *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    assert last in done.stdout


@pytest.mark.parametrize("script", sorted(BENCH.glob("*.py")), ids=lambda path: path.stem)
def test_every_measurement_finds_what_it_imports(script: Path) -> None:
    runpy.run_path(str(script))
