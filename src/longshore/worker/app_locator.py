"""Where a child process finds the tasks that its worker knows.

A child is a fresh interpreter, so it has to import what its worker has imported. Tasks in a
module are found by the module's name. Those of a script are found as the `spawn` method of
multiprocessing does it: the script is run again under another name than `__main__`.
"""

import runpy
import sys
import types
from collections.abc import Iterable
from importlib import import_module

import msgspec

from longshore.errors import ConfigError
from longshore.runtime import logs

__all__ = ["LogStyle", "Origin", "check_may_open", "find_origin", "load"]

_MAIN = "__main__"
_MAIN_AGAIN = "__mp_main__"
"""The name that multiprocessing gives the script in a child: guards against it are written
for this one."""


class LogStyle(msgspec.Struct, frozen=True):
    """How a child process logs: as its worker does, where that is Longshore's own."""

    level: str
    as_json: bool


class Origin(msgspec.Struct, frozen=True):
    """How to import an app and its tasks."""

    place: str
    """`module:attribute`."""
    modules: tuple[str, ...] = ()
    """What has to be imported for all tasks to be there."""
    script: str | None = None
    """The file behind `__main__`, where that is one of the modules."""
    script_module: str | None = None
    """Its name, where it was started with `python -m`."""
    url: str | None = None
    """Where the app's engine is."""
    is_private: bool = False
    """The engine is in the worker's memory: nobody else can reach it."""
    logs: LogStyle | None = None
    settings: bytes | None = None
    """The worker's settings, as `longshore.settings.packed` writes them."""


def find_origin(app: object, modules: Iterable[str]) -> Origin:
    """How a child process imports this app, or ConfigError if it cannot."""
    place = _place(app)
    needed = {place.partition(":")[0], *modules}
    script, script_module = _script() if _MAIN in needed else (None, None)
    return Origin(place, tuple(sorted(needed)), script, script_module)


def load(origin: Origin) -> object:
    """The app, imported in this process. ConfigError if it is not what the worker has."""
    global _refusal
    _refusal = (
        "this script starts to work when it is imported, and a child process has to import "
        'it; put what starts it under `if __name__ == "__main__":`'
    )
    if origin.logs is not None:
        logs.configure(origin.logs.level, as_json=origin.logs.as_json)
    for name in origin.modules:
        if name == _MAIN:
            _run_main(origin)
        else:
            import_module(name)
    _refusal = (
        "the queue is in the memory of the worker, where a child process cannot reach it; "
        "use a file or a server"
        if origin.is_private
        else None
    )
    name, _, attribute = origin.place.partition(":")
    found = getattr(sys.modules[name], attribute, None)
    if found is None:
        raise ConfigError(f"module {name!r} has no attribute {attribute!r} in a child process")
    return found


_refusal: str | None = None


def check_may_open() -> None:
    """ConfigError where an app may not be opened: see `load`."""
    if _refusal is not None:
        raise ConfigError(_refusal)


def _place(app: object) -> str:
    found = [
        f"{name}:{attribute}"
        for name, module in list(sys.modules.items())
        if name != _MAIN_AGAIN
        for attribute, value in list(getattr(module, "__dict__", {}).items())
        if value is app and attribute.isidentifier()
    ]
    if not found:
        raise ConfigError(
            "tasks with execution='process' run in a process that imports their app; give the "
            "app a name at the top level of a module"
        )
    # The script is run again only where there is no other way.
    return min(found, key=lambda place: (place.startswith(f"{_MAIN}:"), len(place), place))


def _script() -> tuple[str | None, str | None]:
    main = sys.modules[_MAIN]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return None, spec.name
    file = getattr(main, "__file__", None)
    if file is None:
        raise ConfigError(
            "tasks with execution='process' run in a process that imports them, and these were "
            "typed into an interpreter; put them into a file"
        )
    return str(file), None


def _run_main(origin: Origin) -> None:
    # As in multiprocessing: what the script defines is to be found under both names.
    module = types.ModuleType(_MAIN_AGAIN)
    if origin.script_module is not None:
        content = runpy.run_module(origin.script_module, run_name=_MAIN_AGAIN, alter_sys=True)
    elif origin.script is not None:
        content = runpy.run_path(origin.script, run_name=_MAIN_AGAIN)
    else:
        raise ConfigError("the worker did not say which script it runs")
    vars(module).update(content)
    sys.modules[_MAIN] = sys.modules[_MAIN_AGAIN] = module
