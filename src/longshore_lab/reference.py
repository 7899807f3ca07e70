"""The Python reference: the public names of `longshore`, as their source describes them."""

import enum
import importlib
import inspect
from collections.abc import Callable
from typing import Any, NewType, cast

from longshore import errors
from longshore.job_context import RunningJob
from longshore.sync import Sync
from longshore.task import Declaration
from longshore_lab.reading import attributes, call, fields, line, remarks, table

__all__ = ["python"]

# What public names return or take, without being imported by anyone.
ALSO = {
    "what @app.task takes": Declaration,
    "what current_job() returns": RunningJob,
    "app.sync": Sync,
}

# For the parts of Longshore itself, not for programs.
_HIDDEN = {
    "handler",
    "loop",
    "new_id",
    "read",
    "registry",
    "spec_of",
    "submit_here",
    "submit_spec",
}


def python() -> str:
    """Every public name, errors aside."""
    longshore = importlib.import_module("longshore")
    names = [name for name in longshore.__all__ if not hasattr(errors, name)]
    parts = [_described(name, getattr(longshore, name)) for name in names]
    parts += [_described(f"{kind.__name__}: {title}", kind) for title, kind in ALSO.items()]
    return "\n\n".join(parts)


def _described(title: str, thing: object) -> str:
    if isinstance(thing, NewType):
        home = importlib.import_module(str(thing.__module__))
        return f"## {title}\n\n{remarks(home)[title]}"
    parts = [f"## {title}", inspect.getdoc(thing) or ""]
    if isinstance(thing, enum.EnumMeta):
        parts.append(_choices(cast("type[enum.Enum]", thing)))
    elif isinstance(thing, type):
        parts += _members(cast("type[Any]", thing))
    elif callable(thing):
        parts.insert(1, f"```python notest\n{call(title, thing)}\n```")
    return "\n\n".join(part for part in parts if part)


def _choices(kind: type[enum.Enum]) -> str:
    texts = remarks(kind)
    if not texts:
        return " · ".join(f"`{member.value}`" for member in kind)
    return table(["value", "meaning"], [[f"`{m.value}`", texts.get(m.name, "")] for m in kind])


def _members(kind: type[Any]) -> list[str]:
    kinds = fields(kind)
    texts = remarks(kind)
    shown = [[f"`{name}`", f"`{kinds[name]}`", texts.get(name, "")] for name in kinds]
    members = [[f"`{name}`", text] for name, text in attributes(kind).items()]
    members += [
        [f"`{_written(name, value)}`", line(inspect.getdoc(value) or "")]
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_")
        and name not in _HIDDEN | kinds.keys()
        and (inspect.isfunction(value) or isinstance(value, property))
    ]
    return [
        table(["field", "type", "meaning"], shown) if shown else "",
        table(["member", "what you get"], members) if members else "",
    ]


def _written(name: str, value: property | Callable[..., Any]) -> str:
    return name if isinstance(value, property) else call(name, value)
