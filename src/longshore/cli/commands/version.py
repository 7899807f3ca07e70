"""`longshore version`: what runs here."""

import platform
import sqlite3
from importlib.metadata import version

import click

from longshore.cli import render
from longshore.cli.global_options import Command, Shared


@click.command("version", cls=Command)
@click.pass_obj
def command(shared: Shared) -> None:
    """Print the versions of Longshore and what it runs on."""
    versions: dict[str, object] = {
        "longshore": version("longshore"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "platform": platform.platform(terse=True),
    }
    if shared.as_json:
        render.document(versions)
    else:
        render.sheet(render.Sheet([(name, str(text)) for name, text in versions.items()]))
