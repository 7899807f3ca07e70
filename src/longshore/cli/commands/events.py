"""`longshore events`: what happens, as it happens."""

from collections.abc import AsyncIterator

import click

from longshore.cli import happenings, render, wiring
from longshore.cli.happenings import Happening, Wanted
from longshore.cli.parameters import setting
from longshore.cli.shared import Group, Shared
from longshore.core import ids
from longshore.core.event import Name
from longshore.core.state import State
from longshore.engine import Engine
from longshore.errors import ConfigError


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
@click.option("--kafka", is_flag=True, help="Read Kafka's topic and not the outbox.")
@setting("kafka.servers")
@setting("kafka.topic")
@click.pass_obj
def tail(shared: Shared, **options: str | None) -> None:
    """Print events until Ctrl-C. Nothing is kept back for this: relays still get them all."""
    servers, topic = options["servers"], options["topic"]
    flags = {"kafka.servers": servers, "kafka.topic": topic}
    settings = wiring.settings(shared, flags)
    job = options["job"]
    wanted = Wanted(
        queue=options["queue"],
        type=options["type_"],
        job=ids.text(ids.parse(job)) if job else None,
        state=State(options["state"]) if options["state"] else None,
        name=Name(options["event"]) if options["event"] else None,
    )
    limit = int(options["limit"] or 0)
    from_start = bool(options["from_start"])

    async def show(found: AsyncIterator[Happening]) -> None:
        count = 0
        async for one in found:
            if wanted.fits(one):
                _print(one, as_json=shared.as_json)
                count += 1
                if count == limit:
                    return

    if options["kafka"] or servers:
        if not settings.kafka.servers:
            raise ConfigError("which Kafka? name it with --servers or kafka.servers")
        happenings.run(show(happenings.of_kafka(settings.kafka, from_start=from_start)))
        return

    async def look(engine: Engine) -> None:
        await show(happenings.of_outbox(engine, from_start=from_start))

    wiring.ask(shared, look)


def _print(one: Happening, *, as_json: bool) -> None:
    if as_json:
        render.document(one.document())
    else:
        click.echo(render.plain(one.line()))
