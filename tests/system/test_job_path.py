"""What one job passes is told, on each engine."""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("postgres_server")]


def told(*options: str) -> str:
    # A process of its own: the program watches every connection that its process opens.
    command = [sys.executable, "-m", "longshore_lab.job_path", "--jobs", "2", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_job_passes_submit_handler_and_settlement_on_both_engines():
    sqlite, postgres = found = json.loads(told("--json"))

    assert [path["engine"] for path in found] == ["sqlite", "postgres"]
    for path in found:
        names = path["functions_by_file"]
        assert path["files"] == len(names) > 20
        assert path["functions"] == sum(map(len, names.values())) > 100
        assert path["statements"] == len(path["statement_names"])
        assert "Task.submit" in names["task.py"]
        assert "succeeded" in names["core/settle.py"]
    assert files_of("engines/postgres", sqlite) == files_of("engines/sqlite", postgres) == []
    assert {"claim", "settle_succeeded"} <= set(sqlite["statement_names"])
    assert "exchange" in postgres["statement_names"]


def test_the_table_has_a_line_for_each_engine_and_file():
    lines = [line.split() for line in told("--engine", "sqlite").splitlines()]

    assert lines[0] == ["engine", "files", "functions", "statements"]
    assert lines[1][0] == "sqlite"
    assert ["functions", "of", "sqlite"] in lines
    assert any(line[:1] == ["task.py"] for line in lines)


def files_of(folder: str, path: dict[str, Any]) -> list[str]:
    return [file for file in path["functions_by_file"] if file.startswith(folder)]
