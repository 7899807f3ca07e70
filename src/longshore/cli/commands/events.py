"""`longshore events`: what happens, as it happens."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import click

from longshore.cli import events, render, wiring
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import setting
from longshore.core import ids
from longshore.core.event import Name
from longshore.core.state import State
from longshore.errors import ConfigError
from longshore.operations.backend import Backend
from longshore.operations.events import Heard
from longshore.streaming.events import JobEvent


@click.group("events", cls=Group)
def command() -> None:
    """Watch what happens to jobs."""


@command.command()
@click.option("--queue", help="Of this queue only.")
@click.option("--type", "type_", help="Of jobs of this type only.")
@click.option("--job", help="Of this job only.")
@click.option(
    "--state",
    type=click.Choice([str(one) for one in State]),
    help="That led to this state only.",
)
@click.option(
    "--event", type=click.Choice([str(one) for one in Name]), help="Of this name only."
)
@click.option("--from-start", is_flag=True, help="Begin with the oldest event that is kept.")
@click.option("--limit", type=click.IntRange(1), help="End after so many.")
@click.option(
    "--no-follow", is_flag=True, help="Print the events that are kept, oldest first, and end."
)
@click.option("--kafka", is_flag=True, help="Read Kafka's topic and not the outbox.")
@setting("kafka.servers")
@setting("kafka.topic")
@click.pass_obj
def tail(shared: Shared, limit: int | None, **options: Any) -> None:
    """Print events until Ctrl-C. Nothing is kept back for this: relays still get them all."""
    servers, topic = options["servers"], options["topic"]
    flags = {"kafka.servers": servers, "kafka.topic": topic}
    settings = wiring.settings(shared, flags)
    which = _which(**options)
    from_start, is_endless = bool(options["from_start"]), not options["no_follow"]
    if options["kafka"] or servers:
        if not settings.kafka.servers:
            raise ConfigError("which Kafka? name it with --servers or kafka.servers")
        if not is_endless:
            raise ConfigError("--no-follow reads the outbox; a topic of Kafka has no end")
        found = events.of_kafka(settings.kafka, from_start=from_start)
        asyncio.run(_show(shared, found, which, limit))
        return

    async def look(backend: Backend) -> None:
        if is_endless:
            found = backend.follow(from_start=from_start, **which)
        else:
            found = backend.kept_events(**which)
        await _show(shared, found, which, limit)

    wiring.run(shared, look)


async def _show(
    shared: Shared, found: AsyncGenerator[JobEvent], which: Heard, limit: int | None
) -> None:
    """Print the events that are meant, at most so many."""
    count = 0
    async with aclosing(found):
        async for one in found:
            if events.fits(one, which):
                _print(one, as_json=shared.as_json)
                count += 1
                if count == limit:
                    return


def _which(**options: Any) -> Heard:
    """The events that are meant."""
    which = Heard()
    name, state = options["event"], options["state"]
    names = events.names_of(Name(name) if name else None, State(state) if state else None)
    if names:
        which["names"] = names
    if options["queue"]:
        which["queue"] = options["queue"]
    if options["type_"]:
        which["type"] = options["type_"]
    if options["job"]:
        which["job_id"] = ids.text(ids.parse(options["job"]))
    return which


def _print(one: JobEvent, *, as_json: bool) -> None:
    if as_json:
        render.document(one)
    else:
        click.echo(render.plain(events.line(one)))
