"""`longshore api`: the queue over HTTP."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from longshore.cli import api, metrics, service, wiring
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import duration, setting
from longshore.core import units
from longshore.worker.signals import leave_with_parent
from longshore.worker.supervise import Supervisor

log = logging.getLogger("longshore.cli")


@click.command("api", cls=Command)
@setting("api.host")
@setting("api.port", int)
@setting("api.processes", int)
@setting("api.only")
@setting("api.max_requests", int)
@setting("api.drain_timeout", duration)
@click.option("--fd", type=int, hidden=True, help="A socket that listens already.")
@click.option("--supervised", type=int, hidden=True, help="Leave when this parent is gone.")
@click.option("--metrics-folder", type=Path, hidden=True, help="Where all processes count.")
@click.option("--ready-file", type=Path, hidden=True, help="Made when requests are taken.")
@click.pass_context
def command(
    context: click.Context,
    fd: int | None,
    supervised: int | None,
    metrics_folder: Path | None,
    ready_file: Path | None,
    **options: Any,
) -> None:
    """Serve the queue over HTTP until SIGTERM or Ctrl-C.

    The first signal drains: requests under way are answered, and no others are taken. A second
    signal leaves at once. SIGHUP starts the processes anew, by turns, on the same socket.
    """
    shared = context.ensure_object(Shared)
    flags = {f"api.{name}": value for name, value in options.items()}
    with wiring.service(shared, flags) as (app, settings):
        wiring.refuse_remote(app, "the HTTP service")
        listening = socket.socket(fileno=fd) if fd is not None else api.listen(settings)
        if supervised is not None:
            leave_with_parent(supervised)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        else:
            asyncio.run(api.refuse_keyless(app, settings))
            facts = {"address": api.address(listening), "processes": settings.api.processes}
            log.info("api serves", extra=facts)
        if settings.api.processes > 1:
            words = _command(shared, {**options, "processes": 1}, listening)
            context.exit(_supervised(words, settings.api.processes, listening))
        metrics.at(app, metrics.Port(None, metrics_folder))
        on_ready = partial(_tell, ready_file)
        is_renewed = service.run(api.serve(app, settings, listening, on_ready))
    if is_renewed and supervised is None:
        log.info("api begins again")
        os.set_inheritable(listening.fileno(), True)
        os.execv(sys.executable, _command(shared, options, listening))


def _tell(ready_file: Path | None) -> None:
    log.debug("api takes requests")
    if ready_file is not None:
        ready_file.touch()


def _supervised(words: list[str], count: int, listening: socket.socket) -> int:
    with metrics.neighbours(metrics.Port()) as shared:
        supervisor = Supervisor(
            [*words, *shared.words, "--supervised", str(os.getpid())],
            count,
            listening=[listening],
            renews=True,
            what="api process",
        )
        return supervisor.run()


def _command(
    shared: Shared, options: Mapping[str, object], listening: socket.socket
) -> list[str]:
    """The command line of a process that serves the same socket."""
    given = {"url": shared.url, "app": shared.app, "config": shared.config, **options}
    words = [sys.executable, "-m", "longshore", "api", "--fd", str(listening.fileno())]
    for name, value in given.items():
        if value is not None:
            text = units.duration_text(value) if isinstance(value, timedelta) else value
            words += [f"--{name.replace('_', '-')}", str(text)]
    return [*words, *["--json"] * shared.as_json, *["--debug"] * shared.debug]
