"""`longshore bench`: what an engine does on this machine."""

import os
import platform
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import click
import msgspec

from longshore.bench.plan import Mode, Plan, Profile
from longshore.bench.run import Figures, run
from longshore.cli.global_options import Command, Shared
from longshore.wire.address import refuse_service

_MIX_CONCURRENCY = 4_000
"""Slots for the mixed profile: its jobs take 0.22 s on average, so 64 slots would be the limit
and not the engine."""
_DEPTH = 10_000
_MIX_DEPTH = 20_000
"""Of its jobs many wait for a retry: with 10,000 under way that would be the limit."""
_NOTICEABLE = 0.01
"""Share of the processor time whose loss is worth a line."""


@dataclass(frozen=True, slots=True)
class _Where:
    url: str
    is_temporary: bool


@click.command("bench", cls=Command)
@click.option(
    "--mode",
    type=click.Choice([one.value for one in Mode]),
    default="steady",
    show_default=True,
)
@click.option(
    "--profile",
    type=click.Choice([*(one.value for one in Profile), "both"]),
    default="both",
    show_default=True,
    help="Jobs that do nothing, jobs with all that real ones have, both; or a mixed load.",
)
@click.option("--seconds", type=float, default=8.0, show_default=True, help="Steady: how long.")
@click.option("--jobs", type=int, default=100_000, show_default=True, help="Drain: how many.")
@click.option("--batch", type=int, default=100, show_default=True, help="Jobs per submit.")
@click.option(
    "--depth",
    type=int,
    help="Steady: submit no more while so many are not finished. 10000; mixed: 20000.",
)
@click.option(
    "--rate",
    type=float,
    default=0.0,
    help="Steady: so many jobs arrive a second and --depth is not heeded.",
)
@click.option("--callers", type=int, default=8, show_default=True, help="Submits at a time.")
@click.option("--processes", type=int, default=1, show_default=True, help="Worker processes.")
@click.option("--concurrency", type=int, default=256, show_default=True, help="Slots in each.")
@click.option("--claim-batch", type=int, default=4_000, show_default=True)
@click.option("--payload-bytes", type=int, default=100, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Mixed: which jobs.")
@click.option("--repeat", type=click.IntRange(1, 20), default=1, show_default=True)
@click.pass_obj
def command(shared: Shared, profile: str, repeat: int, **asked: Any) -> None:
    """Submit, claim, run and settle with real processes, and print what came of it.

    `--engine sqlite` (the default) measures on a file that is deleted afterwards;
    `sqlite:normal` with synchronous=normal. Any other URL is used as it is, on a queue of its
    own. The last line is JSON.
    """
    refuse_service(shared.url or "", "a benchmark")
    with ExitStack() as stack:
        where = _where(shared.url, stack)
        names = [Profile.NOOP, Profile.REAL] if profile == "both" else [Profile(profile)]
        if asked["mode"] == Mode.LATENCY:
            names = [Profile.NOOP]
        found: dict[str, list[Figures]] = {name: [] for name in names}
        for _ in range(repeat):
            for name in names:
                found[name].append(_measure(shared, where, name, asked))
    best = {name: _middle(figures) for name, figures in found.items()}
    if not shared.as_json:
        _print_table(best)
    click.echo(msgspec.json.encode(_document(best, where)))


def _where(url: str | None, stack: ExitStack) -> _Where:
    if url is not None and url not in {"sqlite", "sqlite:normal", "sqlite:full"}:
        return _Where(url, is_temporary=False)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="longshore-bench-"))
    synchronous = (url or "sqlite:full").partition(":")[2] or "full"
    return _Where(f"sqlite:///{folder}/jobs.db?synchronous={synchronous}", is_temporary=True)


def _measure(shared: Shared, where: _Where, name: Profile, asked: dict[str, Any]) -> Figures:
    asked = {**asked, "depth": asked["depth"] or _DEPTH}
    if name is Profile.MIX:
        asked["concurrency"] = max(asked["concurrency"], _MIX_CONCURRENCY)
        asked["depth"] = max(asked["depth"], _MIX_DEPTH)
    queue = f"longshore-bench-{token_hex(4)}"
    plan = msgspec.convert({"url": where.url, "profile": name, "queue": queue, **asked}, Plan)
    if shared.as_json:
        return run(plan)
    with _progress(f"{plan.mode} {plan.profile}") as report:
        return run(plan, report)


class _progress:  # noqa: N801  # reads as a context manager
    def __init__(self, title: str) -> None:
        self._title = title

    def __enter__(self) -> Callable[[str, float], None]:
        from rich.progress import Progress  # rich only where it prints

        self._shown = Progress(transient=True)
        self._shown.start()
        task = self._shown.add_task(self._title, total=1.0)

        def report(what: str, done: float) -> None:
            self._shown.update(task, completed=done, description=f"{self._title}: {what}")

        return report

    def __exit__(self, *_: object) -> None:
        self._shown.stop()


def _middle(figures: list[Figures]) -> Figures:
    """The run with the median rate: one number, but a run that really was."""
    return sorted(figures, key=lambda one: one.jobs_per_s)[len(figures) // 2]


def _document(best: dict[str, Figures], where: _Where) -> dict[str, Any]:
    first, *others = best.values()
    document = _one(first) | {
        "engine": _shown(where),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    return document | {str(one.plan.profile): _one(one) for one in others}


def _shown(where: _Where) -> str:
    """The engine, without a password and without the name of a file that is gone."""
    if where.is_temporary:
        return where.url.partition(":")[0]
    address = urlsplit(where.url)
    if "@" not in address.netloc:
        return where.url
    if address.password is None:
        return where.url
    return urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2]))


def _one(figures: Figures) -> dict[str, Any]:
    document = msgspec.to_builtins(figures)
    plan = document.pop("plan")
    plan.pop("url")
    return {"mode": plan.pop("mode"), "profile": plan.pop("profile"), **document, "plan": plan}


def _print_table(best: dict[str, Figures]) -> None:
    from rich.console import Console  # rich only where it prints
    from rich.table import Table

    table = Table(
        title="submit → claim → run → settle, durable",
        caption="CPU: producer + worker + server; an embedded engine's is the others'"
        + _tally(best)
        + _loss(best),
    )
    table.add_column("profile")
    headings = ["jobs/s", "wait ms p50", "p99", "submit ms p50", "p99", "CPU µs/job"]
    has_log = any(one.wal_bytes_per_job is not None for one in best.values())
    for heading in [*headings, *(["WAL bytes/job"] if has_log else [])]:
        table.add_column(heading, justify="right")
    for name, one in best.items():
        cpu = one.cpu_us_per_job
        table.add_row(
            name,
            f"{one.jobs_per_s:,.0f}",
            f"{one.p50_ms:.2f}",
            f"{one.p99_ms:.2f}",
            f"{one.submit_p50_ms:.2f}",
            f"{one.submit_p99_ms:.2f}",
            f"{cpu.producer:.1f} + {cpu.worker:.1f} + {cpu.server:.1f}",
            *([f"{one.wal_bytes_per_job:,.0f}"] if one.wal_bytes_per_job is not None else []),
        )
    Console().print(table)


def _tally(best: dict[str, Figures]) -> str:
    """A line on how often each job ran, where its handlers counted."""
    told = [one.tally for one in best.values() if one.tally is not None]
    if not told:
        return ""
    if all(one.is_exact for one in told):
        return "\nEvery job ran as often as it had to, and no more: its handler counted"
    return "".join(f"\nBROKEN: {one.told}" for one in told if not one.is_exact)


def _loss(best: dict[str, Figures]) -> str:
    """A line on what the host took, unless it took next to nothing."""
    stolen = max(one.stolen or 0.0 for one in best.values())
    if stolen < _NOTICEABLE:
        return ""
    return f"\nThe host gave {stolen:.0%} of the processor time that was wanted here to others"
