"""`longshore worker`: run jobs."""

import logging
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from longshore.app import Longshore
from longshore.cli import metrics, service, wiring
from longshore.cli.exit_status import Exit
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import duration, setting
from longshore.core import units
from longshore.engines import open_store
from longshore.settings import Settings, service_manager
from longshore.worker.health import Sign
from longshore.worker.init import step_aside_if_first
from longshore.worker.readiness import ReadyFile, ServiceManager
from longshore.worker.shutdown import Ending
from longshore.worker.signals import before_leaving, begin_again, leave, leave_with_parent
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
@setting("worker.stuck_after", duration)
@setting("worker.exit_when_stuck", bool)
@setting("worker.ready_file")
@setting("worker.name")
@setting("metrics.port", int, flag="--metrics-port")
@click.option("--metrics-fd", type=int, hidden=True, help="A socket that listens already.")
@click.option("--metrics-folder", type=Path, hidden=True, help="Where all processes count.")
@click.option("--supervised", type=int, hidden=True, help="Leave when this parent is gone.")
@click.option("--farewell", type=click.Path(path_type=Path), hidden=True, help="Write it last.")
@click.pass_context
def command(
    context: click.Context,
    supervised: int | None,
    farewell: Path | None,
    metrics_port: int | None,
    metrics_fd: int | None,
    metrics_folder: Path | None,
    **options: Any,
) -> None:
    """Run the jobs of an application's tasks until SIGTERM or Ctrl-C.

    The first signal drains: nothing more is claimed, running jobs may finish, what has not
    started goes back. A second signal leaves at once; no job is lost either way. A worker with
    too many threads that never end drains, and begins again in the same process.
    """
    step_aside_if_first()
    folder = os.getcwd()
    shared = context.ensure_object(Shared)
    flags = {f"worker.{name}": value for name, value in options.items()}
    flags["metrics.port"] = metrics_port
    with _saying(farewell), wiring.service(shared, flags) as (app, settings):
        announce = partial(_announce, app, settings)
        port = metrics.opened(settings.metrics, metrics_fd, metrics_folder)
        if settings.worker.processes > 1:
            announce()
            words = _command(shared, {**options, "processes": 1, "ready_file": None})
            context.exit(_supervise(words, settings, port))
        if supervised is not None:
            leave_with_parent(supervised)
        on_open = announce if supervised is None else None
        signs = _signs(settings, is_supervised=supervised is not None)
        metrics.at(app, port)
        main = service.work(app, settings, port, signs=signs, on_open=on_open)
        ending = service.run(main)
    if ending is Ending.WORN_OUT and supervised is None:
        begin_again(folder)
    code = _EXITS.get(ending, Exit.DONE)
    leave(code)
    context.exit(code)


def _supervise(words: list[str], settings: Settings, port: metrics.Port) -> int:
    with metrics.neighbours(port) as shared:
        supervisor = Supervisor(
            [*words, *shared.words],
            settings.worker.processes,
            _signs(settings),
            listening=shared.sockets,
            says_farewell=True,
        )
        return supervisor.run()


_EXITS = {Ending.WORN_OUT: Exit.WORN_OUT, Ending.STUCK: Exit.STUCK}


@contextmanager
def _saying(farewell: Path | None) -> Generator[None]:
    """Tell the parent, at the end, that no job has ended this process."""

    def say() -> None:
        if farewell is not None:
            with suppress(OSError):
                farewell.touch()

    before_leaving(say)
    try:
        yield
    finally:
        say()


def _signs(settings: Settings, *, is_supervised: bool = False) -> list[Sign]:
    """What shows others how the worker is."""
    file = settings.worker.ready_file
    signs: list[Sign] = [] if file is None else [ReadyFile(Path(file))]
    # Of several processes, the one that systemd started tells it of all.
    if not is_supervised and (manager := service_manager()) is not None:
        address, has_watchdog = manager
        signs.append(ServiceManager(address, has_watchdog=has_watchdog))
    return signs


def _announce(app: Longshore, settings: Settings) -> None:
    queues = [name.partition("=")[0] for name in settings.worker.queues]
    # The engine's own address leaves out the password that the application's may hold.
    engine = open_store(app.url).url
    serves = {"queues": queues, "tasks": sorted(app.tasks), "engine": engine}
    if settings.app is None:
        log.warning("no --app given: only built-in tasks run", extra=serves)
    else:
        log.info("worker serves", extra=serves)


def _command(shared: Shared, options: Mapping[str, object]) -> list[str]:
    """The command line of one of several processes."""
    given = {
        "url": shared.url,
        "api_key": shared.api_key,
        "app": shared.app,
        "config": shared.config,
        **options,
    }
    words = [sys.executable, "-m", "longshore", "worker", "--supervised", str(os.getpid())]
    for name, value in given.items():
        if value is True:
            words.append(f"--{name.replace('_', '-')}")
        elif value is not None:
            text = units.duration_text(value) if isinstance(value, timedelta) else value
            words += [f"--{name.replace('_', '-')}", str(text)]
    return [*words, *["--json"] * shared.as_json, *["--debug"] * shared.debug]
