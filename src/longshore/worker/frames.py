"""A traceback as text, for the store.

The standard formatter parses the source of every frame to draw carets under it and looks at
every file's age: 0.2 ms per failure, more than all the rest of an attempt. This one reads the
lines that are cached and draws nothing.
"""

import linecache
import traceback
from collections.abc import Iterator
from types import TracebackType

__all__ = ["describe_frames"]

_FRAMES = 40
_CHAIN = 8
_LINE_CHARACTERS = 4_096


def describe_frames(error: BaseException) -> str:
    """The frames of the handler, without the worker's own in front, and what it came from."""
    try:
        is_group = issubclass(type(error), BaseExceptionGroup)
        lines = _standard(error) if is_group else _chain(error, skip=1)
        return "".join(line[:_LINE_CHARACTERS] for line in lines)
    except Exception as second:
        return f"the traceback cannot be formatted: {type(second).__name__}"


def _standard(error: BaseException) -> Iterator[str]:
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return traceback.TracebackException(
        type(error), error, frames, limit=-_FRAMES, compact=True
    ).format()


def _chain(error: BaseException, *, skip: int) -> Iterator[str]:
    """Earlier errors first, each with how it led to the next."""
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
    for place, (link, _) in enumerate(reversed(links)):
        if place:
            yield f"\n{links[len(links) - 1 - place][1]}:\n\n"
        yield "Traceback (most recent call last):\n"
        yield from _frames(link.__traceback__, skip=skip if link is error else 0)
        yield from traceback.format_exception_only(link)


def _frames(trace: TracebackType | None, *, skip: int) -> Iterator[str]:
    found: list[TracebackType] = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    for one in found[skip:][-_FRAMES:]:
        code = one.tb_frame.f_code
        yield f'  File "{code.co_filename}", line {one.tb_lineno}, in {code.co_name}\n'
        line = linecache.getline(code.co_filename, one.tb_lineno, one.tb_frame.f_globals)
        if line := line.strip():
            yield f"    {line}\n"
