"""The names a user may import from `longshore`: adding or removing one is a decision."""

import importlib
import inspect

NAMES = {
    "Cancel",
    "Dead",
    "Job",
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
