"""How the arguments of commands are read: ids, durations, times, filters."""

import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click

from longshore.contract import JobFilter
from longshore.core import ids, units
from longshore.core.job import JobId
from longshore.settings import describe

__all__ = ["duration", "filtered", "given", "job_ids", "one_job_id", "rate", "setting", "time"]

P = ParamSpec("P")
R = TypeVar("R")


def duration(text: str) -> timedelta:
    """The type of an option such as `30s`."""
    try:
        return units.duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def rate(text: str) -> float:
    """The type of an option such as `500/s`."""
    try:
        found = units.rate(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if found <= 0:
        raise click.BadParameter(f"{text!r:.80} is too slow a rate")
    return found


def time(text: str) -> datetime:
    """The type of an option such as `2030-01-31T09:00:00Z`; its offset is a must."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r:.80} is not a time such as 2030-01-31T09:00:00Z"
        ) from None
    if moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no offset; add Z, or one such as +02:00")
    return moment


def setting(
    key: str, kind: Callable[[str], Any] = str, *, flag: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The flag of a setting, explained by the setting's own text and default."""
    (known,) = [one for one in describe() if one.key == key]
    flag = flag or "--" + key.rpartition(".")[2].replace("_", "-")
    if kind is bool:
        return click.option(flag, is_flag=True, default=None, help=known.text)
    usual = f"  [default: {known.default}]" if known.default else ""
    return click.option(flag, type=kind, help=known.text + usual)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value not in (None, ())}


def one_job_id(function: Callable[P, R]) -> Callable[P, R]:
    """An argument ID, passed as `job_id`."""
    return click.argument("job_id", metavar="ID", callback=_parse_id)(function)


def job_ids(*, required: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Arguments ID…, passed as `job_ids`; `-` reads one per line from standard input."""
    return click.argument(
        "job_ids", metavar="ID...", nargs=-1, required=required, callback=_parse_ids
    )


def filtered(function: Callable[..., R]) -> Callable[..., R]:
    """Options that select jobs, passed as one JobFilter named `which`."""

    @click.option("--queue", help="Only of this queue.")
    @click.option("--type", "type_name", metavar="TYPE", help="Only of this type.")
    @click.option("--tag", help="Only with this tag.")
    @click.option("--tenant", help="Only of this tenant.")
    @wraps(function)
    def gathered(*args: Any, **options: Any) -> R:
        which = JobFilter(
            queue=options.pop("queue"),
            type=options.pop("type_name"),
            tag=options.pop("tag"),
            tenant=options.pop("tenant"),
        )
        return function(*args, which=which, **options)

    return gathered


def _parse_ids(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[JobId]:
    words = [
        word
        for value in values
        for word in (sys.stdin.read().split() if value == "-" else [value])
    ]
    # The same id twice is one wish.
    return [_parse_id(context, parameter, word) for word in dict.fromkeys(words)]


def _parse_id(context: click.Context, parameter: click.Parameter, value: str) -> JobId:
    try:
        return ids.parse(value.strip().lower())
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None
