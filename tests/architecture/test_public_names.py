"""The names a user may import from `longshore`: adding or removing one is a decision."""

import importlib
import inspect
import subprocess
import sys

NAMES = {
    "Breaker",
    "Cancel",
    "Dead",
    "Job",
    "JobEvent",
    "JobHandle",
    "JobId",
    "Longshore",
    "Options",
    "Retry",
    "Schedule",
    "Settings",
    "Snooze",
    "State",
    "Task",
    "current_job",
    "open_engine",
}


def errors() -> set[str]:
    module = importlib.import_module("longshore.errors")
    return {
        name
        for name, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, module.LongshoreError)
    }


def test_longshore_exports_its_public_names_and_every_error_and_nothing_else():
    longshore = importlib.import_module("longshore")

    assert set(longshore.__all__) == NAMES | errors()


def test_every_exported_name_is_there():
    longshore = importlib.import_module("longshore")

    assert [name for name in longshore.__all__ if not hasattr(longshore, name)] == []


def test_importing_longshore_loads_no_event_loop_and_no_engine():
    """Whoever needs the command line's help or an error class should not pay for them."""
    script = "import sys, longshore; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    loaded = set(done.stdout.split())
    assert "longshore.errors" in loaded
    assert not loaded & {"asyncio", "msgspec", "sqlite3", "longshore.app"}
