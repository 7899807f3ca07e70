"""A type checker proves the arguments of a submit."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def findings() -> dict[str, dict[int, set[str]]]:
    """Per file and line, the rules that pyright sees broken."""
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "pyright",
            "--outputjson",
            "--project",
            ROOT,
            *HERE.glob("[rw]*.py"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in json.loads(checked.stdout)["generalDiagnostics"]:
        line = one["range"]["start"]["line"] + 1
        found[Path(one["file"]).name][line].add(one.get("rule", one["message"]))
    return found


@pytest.mark.slow
def test_what_is_right_is_accepted_with_its_types(findings: dict[str, dict[int, set[str]]]):
    assert findings["right.py"] == {}


@pytest.mark.slow
def test_what_is_wrong_is_refused_where_it_is_wrong(findings: dict[str, dict[int, set[str]]]):
    lines = (HERE / "wrong.py").read_text().splitlines()
    marks = {n: re.search(r"# (report\w+)", line) for n, line in enumerate(lines, 1)}
    expected = {number: mark[1] for number, mark in marks.items() if mark}

    found = findings["wrong.py"]
    assert len(expected) == 14
    assert found.keys() == expected.keys()
    assert [n for n, rule in expected.items() if rule not in found[n]] == []
