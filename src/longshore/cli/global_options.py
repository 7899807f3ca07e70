"""The options that every command takes, before or after its name."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from longshore.settings import Settings

__all__ = ["Command", "Group", "Shared", "options"]


@dataclass(slots=True)
class Shared:
    """What the shared options say; every command gets it as its first argument."""

    url: str | None = None
    api_key: str | None = None
    app: str | None = None
    config: Path | None = None
    as_json: bool = False
    debug: bool = False
    settings: "Settings | None" = None
    """Kept by `wiring.settings`, so that they are read once."""


def options() -> list[click.Option]:
    """Fresh copies of the shared options."""
    return [
        _option(
            ["--url", "--engine", "url"],
            metavar="URL",
            help="The engine, such as sqlite:///jobs.db, or a service, https://host.",
        ),
        _option(
            ["--api-key"],
            metavar="KEY",
            help="The service's API key; better, set LONGSHORE_KEY.",
        ),
        _option(["--app"], metavar="MODULE:ATTRIBUTE", help="The application and its tasks."),
        _option(
            ["--config"],
            type=click.Path(path_type=Path, dir_okay=False),
            help="The settings file, instead of longshore.toml.",
        ),
        _option(["--json", "as_json"], is_flag=True, help="Print JSON, for programs."),
        _option(["--debug"], is_flag=True, help="Show the traceback of an error."),
    ]


class Command(click.Command):
    """A command that takes the shared options too, listed apart in its help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shared = options()
        self.params = [*self.params, *self._shared]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, the shared ones below."""
        params = self.get_params(ctx)
        own = [
            one for one in params if isinstance(one, click.Option) and one not in self._shared
        ]
        _write_options(ctx, formatter, "Options", own)
        _write_options(ctx, formatter, "Options everywhere", self._shared)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names, or a usage error with a suggestion."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not close:
                raise
            words = f"{error.message.rstrip('.')}; did you mean {close[0]!r}?"
            raise click.UsageError(words, ctx) from None


def _option(names: list[str], **attributes: Any) -> click.Option:
    return click.Option(names, expose_value=False, callback=_remember, **attributes)


def _remember(context: click.Context, option: click.Parameter, value: object) -> None:
    # Asked for twice, before and after the command's name: the later one counts, when given.
    if value and option.name:
        setattr(context.ensure_object(Shared), option.name, value)


def _write_options(
    context: click.Context,
    formatter: click.HelpFormatter,
    title: str,
    parameters: list[click.Option],
) -> None:
    records = [one.get_help_record(context) for one in parameters]
    rows = [record for record in records if record is not None]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)
