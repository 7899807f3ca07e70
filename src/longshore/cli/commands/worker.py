"""`longshore worker`: run jobs."""

import logging
import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import click

from longshore.app import Longshore
from longshore.cli import service, wiring
from longshore.cli.exits import Exit
from longshore.cli.parameters import duration, setting
from longshore.cli.shared import Command, Shared
from longshore.core import quantity
from longshore.engines import open_engine
from longshore.settings import Settings
from longshore.worker.departure import Ending
from longshore.worker.signals import leave_with_parent
from longshore.worker.supervise import Supervisor

log = logging.getLogger("longshore.cli")


@click.command("worker", cls=Command)
@setting("worker.queues")
@setting("worker.concurrency", int)
@setting("worker.threads", int)
@setting("worker.processes", int)
@setting("worker.children", int)
@setting("worker.claim_batch", int)
@setting("worker.lease", duration)
@setting("worker.drain_timeout", duration)
@setting("worker.name")
@click.option("--supervised", is_flag=True, hidden=True, help="Leave when the parent is gone.")
@click.pass_context
def command(context: click.Context, supervised: bool, **options: Any) -> None:
    """Run the jobs of an application's tasks until SIGTERM or Ctrl-C.

    The first signal drains: nothing more is claimed, running jobs may finish, what has not
    started goes back. A second signal leaves at once; no job is lost either way.
    """
    shared = context.ensure_object(Shared)
    flags = {f"worker.{name}": value for name, value in options.items()}
    with wiring.service(shared, flags) as (app, settings):
        announce = partial(_announce, app, settings)
        if settings.worker.processes > 1:
            announce()
            words = _command(shared, {**options, "processes": 1})
            context.exit(Supervisor(words, settings.worker.processes).run())
        if supervised:
            leave_with_parent()
        on_open = None if supervised else announce
        ending = service.run(service.work(app, settings, on_open=on_open))
    context.exit(Exit.WORN_OUT if ending is Ending.WORN_OUT else Exit.DONE)


def _announce(app: Longshore, settings: Settings) -> None:
    queues = [name.partition("=")[0] for name in settings.worker.queues]
    # The engine's own address leaves out the password that the application's may hold.
    engine = open_engine(app.url).url
    serves = {"queues": queues, "tasks": sorted(app.tasks), "engine": engine}
    if settings.app is None:
        log.warning("no --app given: only built-in tasks run", extra=serves)
    else:
        log.info("worker serves", extra=serves)


def _command(shared: Shared, options: Mapping[str, object]) -> list[str]:
    """The command line of one of several processes."""
    given = {"url": shared.url, "app": shared.app, "config": shared.config, **options}
    words = [sys.executable, "-m", "longshore", "worker", "--supervised"]
    for name, value in given.items():
        if value is not None:
            text = quantity.duration_text(value) if isinstance(value, timedelta) else value
            words += [f"--{name.replace('_', '-')}", str(text)]
    return [*words, *["--json"] * shared.as_json, *["--debug"] * shared.debug]
