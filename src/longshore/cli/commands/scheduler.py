"""`longshore scheduler`: keep the queue in order."""

import click

from longshore.cli import service, wiring
from longshore.cli.shared import Command, Shared


@click.command("scheduler", cls=Command)
@click.pass_obj
def command(shared: Shared) -> None:
    """Fire schedules, promote, reclaim and prune until SIGTERM or Ctrl-C.

    Run as many as you like: no schedule fires twice. With --app, the schedules that the
    application declares are stored first.
    """
    with wiring.service(shared) as (app, settings):
        service.run(service.schedule(app, settings))
