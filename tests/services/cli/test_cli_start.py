"""How fast the command line starts: help must not pay for what it does not use."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"asyncio", "httpx", "msgspec", "rich", "sqlite3", "ssl", "uvloop", "zoneinfo"}
BUDGET_MS = 150

SCRIPT = """
import sys, time
from longshore.cli.main import main
try:
    main(sys.argv[1:], prog_name="longshore")
finally:
    print(int(time.process_time() * 1000), *sys.modules, file=sys.stderr)
"""


def started(*words: str, **environ: str) -> tuple[int, set[str]]:
    """Milliseconds of CPU, and the modules that were imported."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        capture_output=True,
        text=True,
        check=True,
        env=environ or None,
    )
    milliseconds, *modules = done.stderr.split()
    return int(milliseconds), set(modules)


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(words: list[str]):
    _, modules = started(*words)

    assert modules & HEAVY == set()
    assert not {name for name in modules if name.startswith("longshore.cli.commands.")}


def test_help_takes_less_cpu_than_anyone_would_notice():
    fastest = min(started("--help")[0] for _ in range(5))

    assert fastest < BUDGET_MS


def test_completion_of_a_command_imports_no_command():
    _, modules = started(
        COMP_WORDS="longshore ", COMP_CWORD="1", _LONGSHORE_COMPLETE="bash_complete"
    )

    assert modules & HEAVY == set()


def test_completion_offers_the_commands(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        env={
            "COMP_WORDS": "longshore sch",
            "COMP_CWORD": "1",
            "_LONGSHORE_COMPLETE": "bash_complete",
        },
    )

    assert done.stdout.split() == ["plain,scheduler", "plain,schedules"]


def test_a_list_for_programs_does_not_import_rich(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    subprocess.run([sys.executable, "-m", "longshore", "migrate", "--url", url], check=True)

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "jobs", "list", "--json", "--url", url],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "rich" not in done.stderr.split()
