"""`longshore scheduler`: keep the queue in order."""

import click

from longshore.cli import metrics, service, wiring
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import setting


@click.command("scheduler", cls=Command)
@setting("metrics.port", int, flag="--metrics-port")
@click.pass_obj
def command(shared: Shared, metrics_port: int | None) -> None:
    """Fire schedules, promote, reclaim and prune until SIGTERM or Ctrl-C.

    Run as many as you like: no schedule fires twice. With --app, the schedules that the
    application declares are stored first.
    """
    with wiring.service(shared, {"metrics.port": metrics_port}) as (app, settings):
        wiring.refuse_remote(app, "a scheduler")
        port = metrics.opened(settings.metrics, None, None)
        service.run(service.schedule(app, settings, port))
