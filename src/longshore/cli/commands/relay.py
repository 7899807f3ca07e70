"""`longshore relay`: ship events."""

import click

from longshore.cli import event_sinks, metrics, service, wiring
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import setting
from longshore.errors import ConfigError


@click.command("relay", cls=Command)
@setting("kafka.servers")
@setting("kafka.topic")
@setting("metrics.port", int, flag="--metrics-port")
@click.pass_obj
def command(
    shared: Shared, servers: str | None, topic: str | None, metrics_port: int | None
) -> None:
    """Ship events to Kafka until SIGTERM or Ctrl-C.

    Run as many as you like: one ships, the others stand by. Every event is shipped at least
    once, and those of a job in order. `longshore outbox list` tells how far it has come.
    """
    flags = {"kafka.servers": servers, "kafka.topic": topic, "metrics.port": metrics_port}
    with wiring.service(shared, flags) as (app, settings):
        wiring.refuse_remote(app, "a relay")
        sinks = event_sinks.sinks(settings)
        if not sinks:
            raise ConfigError("there is nowhere to ship events to: set kafka.servers")
        port = metrics.opened(settings.metrics, None, None)
        service.run(service.relay(app, settings, sinks, port))
