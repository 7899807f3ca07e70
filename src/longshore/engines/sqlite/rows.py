"""From rows to what people see."""

from typing import cast

from longshore.core.job import Attempt, Job, JobId, Progress
from longshore.core.state import State
from longshore.runtime.decoding import decoded_failure, decoded_tags

__all__ = ["attempt", "job"]

Row = tuple[object, ...]
_Said = tuple[float, str | None, int]


def job(row: Row) -> Job:
    """A job from a row of `job_columns`; the sequence number comes first and is left out."""
    *facts, fraction, message, at = row[1:]
    said = None if at is None else Progress(*cast("_Said", (fraction, message, at)))
    fields = dict(zip(Job.__struct_fields__, [*facts, said], strict=True))
    job_id = cast("JobId", fields["id"])
    fields["failure"] = decoded_failure(cast("str | None", fields["failure"]), job_id)
    fields["tags"], flaw = decoded_tags(cast("str | None", fields["tags"]), job_id)
    fields["failure"] = fields["failure"] or flaw
    fields["state"] = State(fields["state"])
    fields["cancel_requested"] = bool(fields["cancel_requested"])
    return Job(**fields)  # pyright: ignore[reportArgumentType]  # the statement's columns are the struct's fields


def attempt(row: Row) -> Attempt:
    """A delivery from a row of `attempts`."""
    fields = dict(zip(Attempt.__struct_fields__, row, strict=True))
    fields["failure"] = decoded_failure(cast("str | None", fields["failure"]))
    return Attempt(**fields)  # pyright: ignore[reportArgumentType]  # the statement's columns are the struct's fields
