"""`longshore`: find the command, run it, and turn every error into one line and a code."""

import logging
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from longshore.cli import exit_status, global_options
from longshore.errors import LongshoreError

__all__ = ["main"]

# Services send it to their log. Other commands name what cannot be decoded themselves.
logging.getLogger("longshore.store").addHandler(logging.NullHandler())

# A table, so that help and completion need not import the commands themselves.
COMMANDS = {
    "dev": "Run everything in one process, on SQLite.",
    "worker": "Run jobs.",
    "scheduler": "Fire schedules, promote, reclaim and prune.",
    "api": "Serve the queue over HTTP.",
    "relay": "Ship events to Kafka.",
    "submit": "Submit a job.",
    "jobs": "List, show, cancel, retry and wait for jobs.",
    "explain": "Say why a job does not run.",
    "dead": "List, show, replay and purge dead jobs.",
    "queues": "List, pause and resume queues.",
    "lines": "Show the lines of ordering keys, and release blocked ones.",
    "breakers": "List, show, set and reset the circuit breakers of types.",
    "schedules": "List, add, preview, pause, resume and remove schedules.",
    "top": "Watch queues, workers, breakers and dead jobs.",
    "workers": "List and drain the workers that are connected.",
    "tenants": "List, show, create, change and delete tenants.",
    "keys": "Create, list, rotate and revoke API keys.",
    "events": "Watch what happens to jobs.",
    "outbox": "Tell who reads events and how far each is behind.",
    "webhooks": "Create, list, rotate, disable, test and replay webhooks.",
    "audit": "Show who did what, and verify and export the log of it.",
    "migrate": "Bring the store's schema up to date.",
    "doctor": "Check everything that is usually wrong.",
    "bench": "Measure an engine end to end.",
    "chaos": "Kill, stop and flap your own workers, or poison a queue.",
    "prove": "Kill workers under load, on a store like yours, and count.",
    "version": "Print the versions of Longshore and what it runs on.",
}


class Root(global_options.Group):
    """The root: imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command's click object."""
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"longshore.cli.commands.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table above, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names from the table, so that a press of TAB imports no command."""
        names = [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names or click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a LongshoreError becomes one line, unless --debug asks for more."""
        asked = ctx.ensure_object(global_options.Shared)
        try:
            return super().invoke(ctx)
        except LongshoreError as error:
            if asked.debug:
                raise
            click.echo(exit_status.line(error, as_json=asked.as_json), err=True)
            ctx.exit(exit_status.exit_code(error))
        except KeyboardInterrupt:
            ctx.exit(exit_status.Exit.INTERRUPTED)


def _leave_colours(ctx: click.Context, _: click.Parameter, value: str) -> None:
    ctx.color = False if value else ctx.color


@click.command(
    cls=Root,
    params=global_options.options(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Completion in bash: eval "$(_LONGSHORE_COMPLETE=bash_source longshore)"',
)
@click.option(
    "--no-color",
    envvar="NO_COLOR",
    default="",
    hidden=True,
    expose_value=False,
    callback=_leave_colours,
    help="Plain text, as https://no-color.org has it.",
)
@click.version_option(package_name="longshore", message="%(version)s")
def main() -> None:
    """Longshore, a durable job queue and scheduler.

    Try `longshore dev` in one terminal and `longshore submit noop` in another.
    """
