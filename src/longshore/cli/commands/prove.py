"""`longshore prove`: load and kills on a store like yours, and a verdict."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from longshore.cli import render
from longshore.cli.exit_status import Exit
from longshore.cli.global_options import Command, Shared
from longshore.errors import ConfigError
from longshore.wire.address import refuse_service

_LAB = "longshore_lab"
_BREAKS = ("fence", "loss", "effects")


@click.command("prove", cls=Command)
@click.option(
    "--minutes",
    type=float,
    metavar="MINUTES",
    default=1.0,
    show_default=True,
    help="How long jobs arrive, from 0.1 to 1440.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Decides which jobs and faults there are.",
)
@click.option(
    "--rate",
    type=float,
    metavar="JOBS",
    default=300.0,
    show_default=True,
    help="Jobs that arrive per second.",
)
@click.option(
    "--in-flight",
    type=int,
    metavar="JOBS",
    help="Instead of --rate: so many jobs are always under way.",
)
@click.option(
    "--workers",
    type=int,
    metavar="PROCESSES",
    default=3,
    show_default=True,
    help="Worker processes, from 2 to 64.",
)
@click.option(
    "--every",
    type=float,
    metavar="SECONDS",
    default=3.0,
    show_default=True,
    help="From one fault to the next, on average.",
)
@click.option(
    "--break",
    "sabotage",
    type=click.Choice(_BREAKS),
    help="Plant a fault, which has to be found: exit code 1.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep the evidence, the ledgers and the store, in a new folder.",
)
@click.pass_context
def command(context: click.Context, keep: Path | None, **asked: Any) -> None:
    """Put load on a store like yours, kill workers, and count what became of every job.

    The store is a scratch one: a temporary SQLite file, or with --url a file beside yours, or a
    database of its own on your PostgreSQL server. It is removed in the end. Worker processes
    are killed with -9, stopped past their lease and asked to leave; producer and handlers write
    ledgers outside of the queue, and the verdict comes from those, with the query behind each
    count. With --json the only output is one line.

    The exit code is 0 if every promise held, and 1 if one was broken. Then the evidence is
    kept, unless you planted the fault, and the report says where.
    """
    shared = context.ensure_object(Shared)
    refuse_service(shared.url or "", "a proof")
    if sys.platform == "win32":
        raise ConfigError("a proof needs signals, which Windows does not have")
    plan_kind, run, report = (_part(name) for name in ("plan", "run", "report"))
    plan = plan_kind.Plan(url=shared.url, **asked)
    from rich.console import Console  # rich only where it prints

    console = Console(stderr=shared.as_json, no_color=context.color is False)
    scene = run.scene_of(plan)
    if not shared.as_json:
        report.introduce(console, plan)
    board = run.board_for(console, scene, is_silent=shared.as_json)
    proof = run.prove(plan, board, scene, keep=keep)
    if shared.as_json:
        render.document(proof.document())
    else:
        report.show(console, proof)
    context.exit(Exit.DONE if proof.holds else Exit.PROBLEM)


def _part(name: str) -> Any:
    # By name: the queue does not depend on the programs that try to break it.
    try:
        return import_module(f"{_LAB}.proof.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != _LAB:
            raise
        raise ConfigError(
            "the package longshore_lab is missing; it comes with `pip install longshore`"
        ) from error
