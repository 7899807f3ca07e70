"""The options that say when a schedule is due, and what its jobs are like."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast

import click

from longshore.cli.parameters import duration, given, time
from longshore.core import codec
from longshore.core.schedule import CatchUp, Overlap
from longshore.operations.schedule_documents import SchedulePatch
from longshore.options import TaskOptions
from longshore.schedule_options import Times

__all__ = ["patch_of", "recurrence_options", "split"]

P = ParamSpec("P")
R = TypeVar("R")

_LENGTHS = {"every", "timeout", "jitter"}
_OPTIONS = [
    click.option("--cron", help='Such as "*/5 * * * *", "0 9 * * mon-fri" or @daily.'),
    click.option("--every", type=duration, help="An interval, such as 90s."),
    click.option(
        "--anchor",
        type=time,
        help="Count the interval from here; default 1970-01-01T00:00:00Z.",
    ),
    click.option(
        "--timezone", help="Of the cron expression, such as Europe/Berlin; default UTC."
    ),
    click.option("--queue", help="Instead of the task's own."),
    click.option("--priority", type=int, help="1 is the most urgent, 9 the least; default 5."),
    click.option("--max-attempts", type=int, help="1 means never retry; default 5."),
    click.option("--timeout", type=duration, help="For one attempt."),
    click.option("--tag", "tags", multiple=True, help="Can be given several times."),
    click.option(
        "--jitter", type=duration, help="Run each job up to this long after its due time."
    ),
    click.option(
        "--catch-up",
        type=click.Choice([*map(str, CatchUp)]),
        help="Which of the due times that downtime missed still fire; default latest.",
    ),
    click.option(
        "--catch-up-limit",
        type=int,
        help="With --catch-up all, the newest so many; default 100.",
    ),
    click.option(
        "--overlap",
        type=click.Choice([*map(str, Overlap)]),
        help="What a due time does while the last job is live; default allow.",
    ),
]


def recurrence_options(function: Callable[P, R]) -> Callable[P, R]:
    """All of them; `split` sorts what is given."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def split(options: Mapping[str, Any]) -> tuple[Times, TaskOptions]:
    """What was given: about the times, and about the jobs."""
    known = given(options)
    times = {key: known.pop(key) for key in Times.__annotations__ if key in known}
    return cast("Times", times), cast("TaskOptions", known)


def patch_of(times: Times, options: TaskOptions, payload: bytes | None) -> SchedulePatch:
    """The change of a schedule that `split` sorted, and its new payload if it gets one."""
    said: dict[str, Any] = {**times, **options}
    for name in _LENGTHS & said.keys():
        length: timedelta = said.pop(name)
        said[f"{name}_seconds"] = length.total_seconds()
    for name, kind in (("catch_up", CatchUp), ("overlap", Overlap)):
        if name in said:
            said[name] = kind(said[name])
    if payload is not None:
        said["payload"] = codec.decode(payload)
    return SchedulePatch(**said)
