"""`longshore top`: the queue at a glance, again and again."""

import asyncio
import logging
import sys
from datetime import timedelta
from shutil import get_terminal_size

import click
import msgspec

from longshore.cli import documents, render, wiring
from longshore.cli.documents import Document
from longshore.cli.parameters import duration
from longshore.cli.shared import Command, Shared
from longshore.cli.top import facts
from longshore.cli.top.facts import Facts
from longshore.cli.top.rates import Rates
from longshore.core.flow import BreakerFlow
from longshore.engine import Engine

_SHORTEST = timedelta(milliseconds=100)


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
    wiring.ask(shared, lambda engine: _live(engine, seconds, is_coloured=is_coloured))


def _once(shared: Shared, seconds: float, *, is_coloured: bool) -> None:
    async def look(engine: Engine) -> tuple[Facts, Rates]:
        rates = Rates()
        before = await facts.look(engine)
        rates.note(before.now, before.queues)
        await asyncio.sleep(seconds)
        found = await facts.look(engine)
        rates.note(found.now, found.queues)
        return found, rates

    found, rates = wiring.ask(shared, look)
    if shared.as_json:
        render.document(_document(found, rates))
        return
    # Only who draws pays for importing rich.
    from longshore.cli.top.frame import Canvas, whole

    width, height = get_terminal_size()
    canvas = Canvas(width, height, is_coloured=is_coloured, is_ascii=_is_ascii())
    for line in whole(found, rates, canvas):
        click.echo(line)


async def _live(engine: Engine, seconds: float, *, is_coloured: bool) -> None:
    from longshore.cli.top.frame import Canvas
    from longshore.cli.top.live import Live
    from longshore.cli.top.screen import Screen

    def canvas(width: int, height: int) -> Canvas:
        return Canvas(width, height, is_coloured=is_coloured, is_ascii=_is_ascii())

    screen = Screen(sys.stdin.fileno(), sys.stdout.fileno())
    await Live(engine, screen, canvas, interval=seconds).run()


def _is_ascii() -> bool:
    return "utf" not in (sys.stdout.encoding or "").lower()


def _document(found: Facts, rates: Rates) -> Document:
    return {
        "url": found.url,
        "at": documents.instant(found.now),
        "queues": [
            documents.queue(one, found.pauses)
            | {
                "oldest_age_seconds": _age(one.oldest_ready_at, found.now),
                "submitted_per_second": rates.of(one.queue).submitted,
                "ended_per_second": rates.of(one.queue).ended,
            }
            for one in found.queues
        ],
        "workers": None if found.workers is None else [*map(documents.worker, found.workers)],
        "breakers": None if found.breakers is None else [*map(_breaker, found.breakers)],
        "dead": [documents.job(one) for one in found.dead],
    }


def _breaker(it: BreakerFlow) -> Document:
    told = msgspec.structs.asdict(it)
    times = {name: documents.instant(told[name] or None) for name in ("since", "until")}
    return {"type": it.type, "phase": it.phase.value, **times}


def _age(since: int | None, now: int) -> float | None:
    return None if since is None else max(now - since, 0) / 1_000_000
