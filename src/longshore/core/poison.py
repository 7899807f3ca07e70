"""Which jobs may be what kills their workers, how they are run, and what proves it.

Whoever was running when a worker died gets a crash, the guilty and the innocent alike. So a job
is judged only by what happens when nothing else can be to blame:

- with one crash less than `max_crashes` it is a *suspect*, and runs in a child process. If that
  dies while its worker lives, the job is dead.
- if its worker vanishes even so, it runs *alone*: its worker runs nothing else, and the engine
  knows of the start before the handler begins. Its child cannot send the worker a signal: if it
  tries, it dies, and the job is dead. Where a child cannot be kept from it, or there is none,
  the job is dead if two workers in a row die like that.
- every worker more that vanishes makes it wait longer before it runs again.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from longshore.core import ids, settle
from longshore.core.backoff import Backoff, Jitter
from longshore.core.job import Attempt, Claim, Death, Failure, Held, Settlement

__all__ = [
    "MAX_CRASHES",
    "MAX_LAPSES",
    "VICTIMS",
    "death_beside",
    "death_of",
    "is_convicted",
    "is_feared",
    "is_suspect",
    "must_be_tried",
    "rest",
    "runs_alone",
    "unreported",
    "victims",
]

MAX_CRASHES = 3
MAX_LAPSES = 3
"""Workers that vanished before anyone knew which of their jobs had started."""
VICTIMS = 16
"""The most that one crash names."""
_IN_A_ROW = 2
_REST = Backoff(base=500_000, cap=300_000_000, jitter=Jitter.NONE)


def is_suspect(claim: Claim, max_crashes: int) -> bool:
    """It runs in a child process of its own. Where `max_crashes` is 1, every job does."""
    return claim.crashes >= max_crashes - 1


def runs_alone(claim: Claim, max_crashes: int) -> bool:
    """Nothing else runs in its worker, and the engine knows of its start before it begins."""
    return claim.crashes >= max_crashes or claim.lapses >= MAX_LAPSES


def is_feared(claim: Claim, max_crashes: int) -> bool:
    """Its worker vanished while it was a suspect: it must not get at the next one."""
    return claim.crashes >= max_crashes


def must_be_tried(claim: Claim, max_crashes: int) -> bool:
    """It has crashed so often that its history decides whether it runs again."""
    return claim.crashes > max_crashes


def is_convicted(history: Sequence[Attempt]) -> bool:
    """Whether the last two workers that ran the job died of it: each ran nothing else.

    A run that was given back before its end, because its worker drained or because a child
    process turned out to be the wrong place for it, says nothing either way.
    """
    ended = [one for one in history if one.outcome != "released"]
    ran = [one for one in ended if one.started_at is not None][-_IN_A_ROW:]
    return len(ran) == _IN_A_ROW and all(map(_died_alone, ran))


def rest(claim: Claim, history: Sequence[Attempt], *, max_crashes: int, now: int) -> int:
    """How much longer it waits, since workers go on vanishing with it: a second, then doubled.

    Whoever the cause is, a fleet that dies of it once in minutes still gets its work done.
    """
    ends = [one.finished_at for one in history if one.outcome == "crashed"]
    if not ends or ends[-1] is None:
        return 0
    return max(ends[-1] + _REST.delay(claim.crashes - max_crashes, 0.0) - now, 0)


def death_of(failure: Failure | None) -> Death | None:
    """The worker's death behind this failure, if that is what it was."""
    if failure is None or failure.death is msgspec.UNSET:
        return None
    return failure.death


def victims(history: Iterable[Attempt]) -> list[str]:
    """The ids of jobs that ran in the same workers when these died, as far as they are named.

    Who of them all was the cause, nobody knew then.
    """
    deaths = (death_of(one.failure) for one in history)
    named = (victim for death in deaths if death is not None for victim in death.victims)
    return list(dict.fromkeys(named))


def death_beside(
    job: Held, running: Sequence[Held], *, beside: int | None = None, in_child: bool = False
) -> Death:
    """The death of the worker that was running these jobs, as `job`, one of them, knows it.

    It names no job of another tenant: whoever may read the job would learn of those.
    """
    others = (one for one in running if one is not job and one.tenant == job.tenant)
    return Death(
        beside=len(running) - 1 if beside is None else beside,
        victims=tuple(ids.text(one.id) for one in islice(others, VICTIMS)),
        in_child=in_child,
    )


def unreported(held: Sequence[Held]) -> list[Settlement]:
    """How to settle all that a session held whose end nobody saw."""
    begun = [one for one in held if one.started_at is not None]
    # Any of the others may have been running too.
    beside = len(held) - 1
    return [settle.lost(one, death_beside(one, begun, beside=beside)) for one in held]


def _died_alone(one: Attempt) -> bool:
    death = death_of(one.failure) if one.outcome == "crashed" else None
    return death is not None and death.beside == 0 and not death.in_child
