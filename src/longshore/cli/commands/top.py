"""`longshore top`: the queue at a glance, again and again."""

import asyncio
import logging
import sys
from datetime import datetime, timedelta
from shutil import get_terminal_size

import click
import msgspec

from longshore.cli import render, wiring
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import duration
from longshore.cli.render import Document
from longshore.cli.top import facts
from longshore.cli.top.facts import Facts
from longshore.core.instant import micros
from longshore.operations.backend import Backend
from longshore.operations.rates import Rates

_SHORTEST = timedelta(milliseconds=100)
_MAX_WAIT_SECONDS = 5.0
"""Of a request over HTTP. Whoever looks soon again need not wait long to hear of trouble."""


@click.command("top", cls=Command)
@click.option(
    "--interval", type=duration, default="1s", show_default=True, help="Between two looks."
)
@click.option("--once", is_flag=True, help="Print one frame as text, and leave.")
@click.pass_context
def command(context: click.Context, interval: timedelta, *, once: bool) -> None:
    """Watch queues, workers, breakers and dead jobs.

    Arrows choose a queue or a dead job, enter opens it, p pauses or resumes a queue, ? tells
    all keys, q leaves. --once and --json look twice, an interval apart, to tell rates.
    """
    shared = context.ensure_object(Shared)
    if interval < _SHORTEST:
        raise click.BadParameter("at least 100ms", param_hint="--interval")
    seconds = interval.total_seconds()
    is_coloured = context.color is not False
    if once or shared.as_json:
        _once(shared, seconds, is_coloured=is_coloured and sys.stdout.isatty())
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("this is no terminal to draw on: use --once or --json")
    # What libraries log would end up in the middle of the picture.
    logging.getLogger().addHandler(logging.NullHandler())
    wiring.run(
        shared,
        lambda backend: _live(backend, seconds, is_coloured=is_coloured),
        max_wait=_MAX_WAIT_SECONDS,
    )


def _once(shared: Shared, seconds: float, *, is_coloured: bool) -> None:
    async def look(backend: Backend) -> tuple[Facts, Rates]:
        rates = Rates()
        before = await facts.look(backend)
        rates.note(micros(before.now), before.queues)
        await asyncio.sleep(seconds)
        found = await facts.look(backend)
        rates.note(micros(found.now), found.queues)
        return found, rates

    found, rates = wiring.run(shared, look, max_wait=_MAX_WAIT_SECONDS)
    if shared.as_json:
        render.document(_document(found, rates))
        return
    # Only who draws pays for importing rich.
    from longshore.cli.top.frame import Canvas, whole

    width, height = get_terminal_size()
    canvas = Canvas(width, height, is_coloured=is_coloured, is_ascii=_is_ascii())
    for line in whole(found, rates, canvas):
        click.echo(line)


async def _live(backend: Backend, seconds: float, *, is_coloured: bool) -> None:
    from longshore.cli.top.frame import Canvas
    from longshore.cli.top.live import Live
    from longshore.cli.top.screen import Screen

    def canvas(width: int, height: int) -> Canvas:
        return Canvas(width, height, is_coloured=is_coloured, is_ascii=_is_ascii())

    screen = Screen(sys.stdin.fileno(), sys.stdout.fileno())
    await Live(backend, screen, canvas, interval=seconds).run()


def _is_ascii() -> bool:
    return "utf" not in (sys.stdout.encoding or "").lower()


def _document(found: Facts, rates: Rates) -> Document:
    return {
        "url": found.url,
        "at": found.now,
        "queues": [
            msgspec.structs.asdict(one)
            | {
                "oldest_age_seconds": _age(one.oldest_ready_at, found.now),
                "submitted_per_second": rates.of(one.queue).submitted,
                "ended_per_second": rates.of(one.queue).ended,
            }
            for one in found.queues
        ],
        "workers": found.workers,
        "crashes": found.crashes,
        "breakers": found.breakers,
        "dead": found.dead,
    }


def _age(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max((now - since).total_seconds(), 0.0)
