"""Find the user's application: `module:attribute`."""

import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType

from longshore.app import Longshore
from longshore.errors import ConfigError

__all__ = ["load_app"]


def load_app(place: str) -> Longshore:
    """The app at `module:attribute` (without an attribute, `app`), or ConfigError.

    Modules in the working directory are found, as with `python -m`.
    """
    module_name, _, attribute = place.partition(":")
    attribute = attribute or "app"
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise ConfigError(f"{place!r} is not a place such as shop.jobs:app")
    module = _imported(module_name)
    found = getattr(module, attribute, None)
    if isinstance(found, Longshore):
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, Longshore)]
    hint = f"; did you mean {module_name}:{_closest(attribute, apps)}?" if apps else ""
    problem = "has no attribute" if found is None else "has no Longshore app as its attribute"
    raise ConfigError(f"module {module_name!r} {problem} {attribute!r}{hint}")


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"there is no module {error.name!r} here or installed") from error
        raise ConfigError(_complaint(name, error)) from error
    # What runs here is the user's own code: whatever it raises is theirs to read.
    except Exception as error:
        raise ConfigError(_complaint(name, error)) from error


def _complaint(name: str, error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.filename}:{frame.lineno}"
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    return (
        f"cannot import {name!r}: {type(error).__name__}: {error} ({where}); "
        "--debug shows the traceback"
    )


def _closest(name: str, known: list[str]) -> str:
    return (get_close_matches(name, known, n=1, cutoff=0) or known)[0]
