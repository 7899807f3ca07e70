"""Every test of the command line has a folder, and an environment, of its own."""

import os
from pathlib import Path

import pytest
from cli_steps import Queue, Shell


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("LONGSHORE_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def shell() -> Shell:
    return Shell()


@pytest.fixture
def queue() -> Queue:
    return Queue("sqlite:///.longshore/jobs.db")
