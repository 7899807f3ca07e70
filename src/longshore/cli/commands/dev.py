"""`longshore dev`: everything in one process."""

import os
import socket
from shlex import quote

import click

from longshore.app import Longshore
from longshore.cli import api, render, service, wiring
from longshore.cli.exit_status import Exit
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import setting
from longshore.engines import open_store
from longshore.settings import Settings
from longshore.worker.shutdown import Ending
from longshore.worker.signals import begin_again, leave

_IN_MEMORY = "://:memory:"


@click.command("dev", cls=Command)
@setting("worker.queues")
@setting("worker.concurrency", int)
@setting("api.port", int)
@click.pass_obj
def command(
    shared: Shared, queues: str | None, concurrency: int | None, port: int | None
) -> None:
    """Run a worker, a scheduler and the HTTP service in this process until Ctrl-C.

    Without --app it serves the built-in tasks: try `longshore submit noop` beside it.
    """
    flags = {
        "worker.queues": queues,
        "worker.concurrency": concurrency,
        "api.port": port,
        "api.host": "127.0.0.1",
    }
    folder = os.getcwd()
    with wiring.service(shared, flags) as (app, settings):
        wiring.refuse_remote(app, "dev")
        listening = api.listen_if_possible(settings, is_wanted=port is not None)
        if not shared.as_json:
            _greet(shared, app, settings, listening)
        ending = service.run(service.work_and_schedule(app, settings, listening))
        is_kept = _IN_MEMORY not in app.url
    if ending is Ending.WORN_OUT and is_kept:
        begin_again(folder)
    leave(Exit.DONE)


def _greet(
    shared: Shared, app: Longshore, settings: Settings, listening: socket.socket | None
) -> None:
    names = [name.partition("=")[0] for name in settings.worker.queues]
    # The engine's own address leaves out the password that the application's may hold.
    render.note(f"engine  {open_store(app.url).url}")
    render.note(f"queues  {', '.join(names)}")
    render.note(f"tasks   {', '.join(sorted(app.tasks))}")
    if app.schedules:
        render.note(f"fires   {', '.join(one.name for one in app.schedules)}")
    if listening is not None:
        render.note(f"http    {api.address(listening)}/docs")
    if _IN_MEMORY not in app.url:
        # Another process cannot reach a queue in memory.
        render.note(f"try     {_beside(shared)} submit {_example(app)}, in another terminal")
        render.note(f"look    {_beside(shared)} jobs list")
    render.note("Ctrl-C drains and stops\n")


def _beside(shared: Shared) -> str:
    """The command, pointed to the same queue as this one."""
    given = {"--config": shared.config, "--app": shared.app, "--url": shared.url}
    flags = [
        f"{flag} {quote(f'{value}')}" for flag, value in given.items() if value is not None
    ]
    return " ".join(["longshore", *flags])


def _example(app: Longshore) -> str:
    own = [name for name in app.tasks if name not in Longshore().tasks]
    return f"{own[0]} '{{...}}'" if own else "noop"
