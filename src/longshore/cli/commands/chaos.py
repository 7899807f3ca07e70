"""`longshore chaos`: hit your own workers, and see that nothing is lost."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import click

from longshore.cli import chaos_targets, render, waits, wiring
from longshore.cli.chaos_targets import Victim
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import duration
from longshore.contract import Engine
from longshore.core import codec, ids
from longshore.core.job import NewJob
from longshore.errors import NotFoundError
from longshore.runtime.ids import IdSource

_WORDS = "fails on purpose, for `longshore chaos poison`"
_GLANCE = 0.2
_WHAT = "chaos"


@click.group("chaos", cls=Group)
def command() -> None:
    """Hit your own workers, and see that nothing is lost.

    Only processes are hit that the store lists as its workers, that run on this machine, and
    that you may signal. Without --yes a command only says what it would do.
    """


_meaning = click.option(
    "--yes",
    "is_meant",
    is_flag=True,
    help="Do it. Without it the command only says what it would do.",
)


def _aiming(function: Callable[..., None]) -> Callable[..., None]:
    @click.option("--worker", metavar="NAME", help="By name or process id; else a random one.")
    @click.option("--seed", type=int, help="Makes the choice the same each time.")
    @_meaning
    @wraps(function)
    def gathered(*args: Any, **options: Any) -> None:
        function(*args, **options)

    return gathered


@command.command(short_help="Kill a worker with -9, once.")
@_aiming
@click.pass_obj
def kill(shared: Shared, worker: str | None, seed: int | None, is_meant: bool) -> None:
    """Kill a worker with -9. Its jobs run elsewhere; nobody starts it again for you."""

    async def strike(engine: Engine) -> None:
        await _strike(shared, engine, _Aim(worker, seed), signal.SIGKILL, is_meant)

    wiring.ask_store(shared, _WHAT, strike)


@command.command(short_help="Stop a worker with SIGSTOP, then let it go on.")
@click.option(
    "--for",
    "pause",
    type=duration,
    default="10s",
    show_default=True,
    help="How long; longer than its lease (worker.lease), and others run its jobs.",
)
@_aiming
@click.pass_obj
def stop(
    shared: Shared, pause: timedelta, worker: str | None, seed: int | None, is_meant: bool
) -> None:
    """Stop a worker with SIGSTOP for a while, and let it go on, also after Ctrl-C.

    Past its lease its jobs run elsewhere, and what it sends when it wakes is refused. On SQLite
    one that is stopped in the middle of a commit holds up the file until it goes on.
    """

    async def freeze(engine: Engine) -> None:
        aim = _Aim(worker, seed)
        victim = await _strike(shared, engine, aim, signal.SIGSTOP, is_meant)
        if not is_meant:
            return
        try:
            await asyncio.sleep(pause.total_seconds())
        finally:
            chaos_targets.hit(victim, signal.SIGCONT, since=aim.since)
            _tell(shared, "SIGCONT", victim, is_meant)

    wiring.ask_store(shared, _WHAT, freeze)


@command.command(short_help="Kill one worker after another with -9.")
@click.option(
    "--times",
    type=click.IntRange(1, 10_000),
    default=5,
    show_default=True,
    help="How many workers to kill.",
)
@click.option(
    "--every", type=duration, default="5s", show_default=True, help="Pause between two kills."
)
@click.option(
    "--patience",
    type=duration,
    default="60s",
    show_default=True,
    help="How long another worker may take to come.",
)
@click.option("--seed", type=int, help="Makes the choices the same each time.")
@_meaning
@click.pass_obj
def flap(
    shared: Shared,
    times: int,
    every: timedelta,
    patience: timedelta,
    seed: int | None,
    is_meant: bool,
) -> None:
    """Kill a worker with -9 again and again; whoever supervises them starts others.

    Waits between two kills until there are as many workers as before; exit code 3 if that takes
    longer than --patience.
    """

    async def strike(engine: Engine) -> None:
        aim = _Aim(None, seed)
        strength = len((await _victims(engine))[0])
        for number in range(times):
            if number:
                await asyncio.sleep(every.total_seconds())
                await _back_to_strength(engine, strength, patience)
            await _strike(shared, engine, aim, signal.SIGKILL, is_meant)
            if not is_meant:
                return

    wiring.ask_store(shared, _WHAT, strike)


@command.command(short_help="Submit jobs that fail every time.")
@click.option(
    "--count",
    type=click.IntRange(1, 100_000),
    default=10,
    show_default=True,
    help="How many jobs.",
)
@click.option("--queue", default="default", show_default=True, help="Where they go.")
@click.option(
    "--max-attempts",
    type=click.IntRange(1, 25),
    default=3,
    show_default=True,
    help="After so many failures each is dead.",
)
@_meaning
@click.pass_obj
def poison(shared: Shared, count: int, queue: str, max_attempts: int, is_meant: bool) -> None:
    """Submit jobs that fail every time: each must end dead after exactly --max-attempts.

    They are of the built-in type noop and carry the tag chaos: `longshore dead list --tag
    chaos` shows them, `longshore dead purge --tag chaos` removes them.
    """

    async def submit(engine: Engine) -> None:
        made = IdSource()
        jobs = [
            NewJob(
                id=made.make(),
                type="noop",
                queue=queue,
                payload=codec.encode({"seq": seq, "fail": _WORDS}),
                max_attempts=max_attempts,
                tags=("chaos",),
            )
            for seq in range(count)
        ]
        if not waits.is_served("noop", queue, (await engine.sessions()).sessions):
            render.warning(f"no live worker serves 'noop' on queue {queue!r}")
        if is_meant:
            await engine.submit(jobs)
        _report(
            shared,
            {
                "submitted": [ids.text(job.id) for job in jobs] if is_meant else [],
                "count": count,
                "queue": queue,
                "dry_run": not is_meant,
            },
            f"{'submitted' if is_meant else 'would submit'} {_some(count, 'poison job')}"
            f" to {queue}" + ("" if is_meant else "; --yes does it"),
        )

    wiring.ask_store(shared, _WHAT, submit)


class _Aim:
    """Whom to hit: the one that is named, or one by chance."""

    def __init__(self, worker: str | None, seed: int | None) -> None:
        self._worker = worker
        self._random = random.Random(seed)
        self.since = 0
        """When the session of the one that was hit last was opened."""

    async def take(self, engine: Engine) -> Victim:
        found, reasons = await _victims(engine)
        if self._worker is None:
            self._random.shuffle(found)
        victim = chaos_targets.chosen(found, reasons, self._worker)
        sessions = {one.token: one.opened_at for one in (await engine.sessions()).sessions}
        self.since = sessions.get(victim.session, 0)
        return victim


async def _victims(engine: Engine) -> tuple[list[Victim], list[str]]:
    found, reasons = chaos_targets.on_this_machine((await engine.sessions()).sessions)
    return sorted(found, key=lambda one: one.pid), reasons


async def _strike(
    shared: Shared, engine: Engine, aim: _Aim, number: signal.Signals, is_meant: bool
) -> Victim:
    victim = await aim.take(engine)
    if is_meant:
        chaos_targets.hit(victim, number, since=aim.since)
    _tell(shared, number.name, victim, is_meant)
    return victim


async def _back_to_strength(engine: Engine, strength: int, patience: timedelta) -> None:
    async def is_back() -> bool:
        return len((await _victims(engine))[0]) >= strength

    if not await _happens(is_back, patience.total_seconds()):
        raise NotFoundError(
            f"nobody started another worker within {patience.total_seconds():g} s; flap needs "
            "a supervisor, such as systemd or `longshore worker --processes 2`"
        )


async def _happens(is_so: Callable[[], Awaitable[bool]], within: float) -> bool:
    for _ in range(max(int(within / _GLANCE), 1)):
        if await is_so():
            return True
        await asyncio.sleep(_GLANCE)
    return False


def _tell(shared: Shared, number: str, victim: Victim, is_meant: bool) -> None:
    verb = "sent" if is_meant else "would send"
    _report(
        shared,
        {
            "signal": number,
            "worker": victim.worker,
            "pid": victim.pid,
            "session": victim.session,
            "holding": victim.holding,
            "dry_run": not is_meant,
        },
        f"{verb} {number} to {victim.worker}, which holds {_some(victim.holding, 'job')}"
        + ("" if is_meant else "; --yes does it"),
    )


def _some(count: int, one: str) -> str:
    return f"{count} {one}{'s' * (count != 1)}"


def _report(shared: Shared, document: dict[str, Any], words: str) -> None:
    if shared.as_json:
        render.document(document)
    else:
        click.echo(words)
