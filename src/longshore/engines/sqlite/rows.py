"""From rows to what people see."""

from typing import cast

import msgspec

from longshore.core.job import Attempt, Failure, Job, Progress
from longshore.core.state import State

__all__ = ["attempt", "job"]

Row = tuple[object, ...]
_Said = tuple[float, str | None, int]

_failure = msgspec.json.Decoder(Failure)
_tags = msgspec.json.Decoder(tuple[str, ...])


def job(row: Row) -> Job:
    """A job from a row of `job_columns`; the sequence number comes first and is left out."""
    *facts, fraction, message, at = row[1:]
    said = None if at is None else Progress(*cast("_Said", (fraction, message, at)))
    fields = dict(zip(Job.__struct_fields__, [*facts, said], strict=True))
    fields["failure"] = _read_failure(fields["failure"])
    fields["tags"] = _tags.decode(fields["tags"]) if fields["tags"] else ()  # pyright: ignore[reportArgumentType]  # text by schema
    fields["state"] = State(fields["state"])
    fields["cancel_requested"] = bool(fields["cancel_requested"])
    return Job(**fields)  # pyright: ignore[reportArgumentType]  # the statement's columns are the struct's fields


def attempt(row: Row) -> Attempt:
    """A delivery from a row of `attempts`."""
    fields = dict(zip(Attempt.__struct_fields__, row, strict=True))
    fields["failure"] = _read_failure(fields["failure"])
    return Attempt(**fields)  # pyright: ignore[reportArgumentType]  # the statement's columns are the struct's fields


def _read_failure(text: object) -> Failure | None:
    return _failure.decode(text) if isinstance(text, str) else None
