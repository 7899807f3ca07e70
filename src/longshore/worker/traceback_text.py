"""A traceback as text, for the store.

The standard formatter parses the source of every frame to draw carets under it and looks at
every file's age: 0.2 ms per failure, more than all the rest of an attempt. This one reads the
lines that are cached, draws nothing and asks the standard one for the last line only where
there is more to say than what was raised.
"""

import linecache
import traceback
from collections.abc import Iterable
from types import TracebackType

__all__ = ["describe_frames"]

_FRAMES = 40
_CHAIN = 8
_LINE_CHARACTERS = 4_096
_TRACING = "longshore.tracing.processing"
"""Around every handler, where runs are traced."""
_PLAIN = ("builtins", "__main__")
"""Modules whose errors are told by their bare names."""
_EXPLAINED = (SyntaxError, NameError, AttributeError, ImportError)
"""Errors of which Python tells more than their text: where, or what was probably meant."""


def describe_frames(error: BaseException) -> str:
    """The frames of the handler, without the worker's own in front, and what it came from."""
    try:
        is_group = issubclass(type(error), BaseExceptionGroup)
        lines = _standard(error) if is_group else _chain(error, skip=1)
        return "".join([line[:_LINE_CHARACTERS] for line in lines])
    except Exception as second:
        return f"the traceback cannot be formatted: {type(second).__name__}"


def _standard(error: BaseException) -> Iterable[str]:
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return traceback.TracebackException(
        type(error), error, frames, limit=-_FRAMES, compact=True
    ).format()


def _chain(error: BaseException, *, skip: int) -> list[str]:
    """Earlier errors first, each with how it led to the next."""
    if error.__cause__ is None and error.__context__ is None:
        return _alone(error, skip=skip)
    links: list[tuple[BaseException, str]] = []
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen and len(links) < _CHAIN:
        seen.add(id(current))
        if current.__cause__ is not None:
            links.append((current, "The above exception was the direct cause of the following"))
            current = current.__cause__
        else:
            links.append((current, "During handling of the above exception, this happened"))
            current = None if current.__suppress_context__ else current.__context__
    told: list[str] = []
    for place, (link, _) in enumerate(reversed(links)):
        if place:
            told.append(f"\n{links[len(links) - 1 - place][1]}:\n\n")
        told += _alone(link, skip=skip if link is error else 0)
    return told


def _alone(error: BaseException, *, skip: int) -> list[str]:
    told = ["Traceback (most recent call last):\n"]
    found: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    if skip < len(found) and found[skip].tb_frame.f_globals.get("__name__") == _TRACING:
        skip += 1
    for one in found[skip:][-_FRAMES:]:
        code, line_number = one.tb_frame.f_code, one.tb_lineno
        file = code.co_filename
        told.append(f'  File "{file}", line {line_number}, in {code.co_name}\n')
        line = linecache.getline(file, line_number, one.tb_frame.f_globals)
        if line := line.strip():
            told.append(f"    {line}\n")
    told += _last_lines(error)
    return told


def _last_lines(error: BaseException) -> list[str]:
    kind = type(error)
    if issubclass(kind, _EXPLAINED) or hasattr(error, "__notes__"):
        return traceback.format_exception_only(error)
    try:
        words = str(error)
        name = kind.__qualname__
        if kind.__module__ not in _PLAIN:
            name = ".".join((kind.__module__, name))
    except Exception:
        return traceback.format_exception_only(error)
    return [f"{name}: {words}\n" if words else f"{name}\n"]
