"""A circuit breaker: when jobs of a type that fails are no longer handed out.

Closed, it counts how handlers end. Too many failures open it, and jobs of the type wait; after
the cool-down it is half-open, and a few jobs, the probes, try whether it works again.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from longshore.core.event import Group, Name
from longshore.core.flow import LARGEST, BreakerFlow, BreakerSettings, Phase
from longshore.core.job import Job, Settlement
from longshore.core.state import State, Verb

__all__ = [
    "COOLDOWN_US",
    "LEAST",
    "LONGEST_LOOK_US",
    "PARKED",
    "PROBES",
    "WINDOW_US",
    "Rules",
    "Standing",
    "look_in",
    "observe",
    "parked",
    "reset",
    "room",
    "rules",
    "shown",
    "told",
    "verdict",
    "verdicts",
    "waking",
]

COOLDOWN_US = 30_000_000
WINDOW_US = 60_000_000
LEAST = 20
PROBES = 1
PARKED = "breaker"
"""Why a job waits that a breaker holds back."""
LONGEST_LOOK_US = 1_000_000
"""How often those who wait while probes run look for what became of them."""
_SLICES = 10
"""A window moves on by a tenth of itself."""
_LAST_REASONS = ("exhausted", "poison")
"""Of a death that the last of several failures brought."""


class Rules(msgspec.Struct, frozen=True):
    """What holds for a breaker, with what nobody said filled in."""

    failures: int
    ratio: float | None
    window: int
    least: int
    cooldown: int
    probes: int


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a breaker stands, and what it has counted."""

    phase: Phase = Phase.CLOSED
    since: int = 0
    """When it came to stand so; 0: it always did."""
    until: int = 0
    """When it is open: the end of the cool-down."""
    failures: int = 0
    """In a row."""
    successes: int = 0
    """Of probes."""
    slices: tuple[tuple[int, int, int], ...] = ()
    """The window, in slices: which one, outcomes, failures among them."""


def rules(settings: BreakerSettings) -> Rules | None:
    """What holds where this is said; None: nothing would ever open it."""
    if settings.failures is None and settings.ratio is None:
        return None
    return Rules(
        settings.failures or LARGEST,
        settings.ratio,
        settings.window or WINDOW_US,
        settings.least or LEAST,
        settings.cooldown or COOLDOWN_US,
        settings.probes or PROBES,
    )


def verdict(settlement: Settlement) -> bool | None:
    """Whether an attempt succeeded, as far as it says anything about what its type needs.

    A job that no retry can help, one that was snoozed, given back or cancelled, and one whose
    worker vanished say nothing.
    """
    if settlement.verb is Verb.SUCCEED:
        return True
    if settlement.started_at is None or not (settlement.charge or settlement.crash):
        return None
    # One that failed, and was to be cancelled meanwhile, failed all the same.
    if settlement.verb in (Verb.RETRY, Verb.CANCEL) or settlement.reason in _LAST_REASONS:
        return False
    return None


def waking(standing: Standing, now: int) -> Standing:
    """How it stands now: half-open when the cool-down is over.

    That it is, too, when the clock was set back to before it began.
    """
    if standing.phase is not Phase.OPEN or standing.since <= now < standing.until:
        return standing
    return Standing(phase=Phase.HALF_OPEN, since=now)


def room(standing: Standing, held: Rules, *, running: int, now: int) -> int | None:
    """How many more jobs may be claimed, of which so many run; None: any number."""
    match waking(standing, now).phase:
        case Phase.CLOSED:
            return None
        case Phase.OPEN:
            return 0
        case Phase.HALF_OPEN:
            return max(held.probes - running, 0)


def look_in(standing: Standing, now: int) -> int:
    """Microseconds until it pays to ask again for jobs that it holds back."""
    if waking(standing, now).phase is Phase.OPEN:
        return standing.until - now
    return LONGEST_LOOK_US


def observe(
    standing: Standing, held: Rules, outcomes: Iterable[bool], now: int
) -> tuple[Standing, list[Standing]]:
    """How it stands after these, in order, and each standing in which its phase changed.

    What ends while it is open began before, and says nothing of now.
    """
    changes: list[Standing] = []
    found = waking(standing, now)
    if found is not standing:
        changes.append(found)
    for is_success in outcomes:
        match found.phase:
            case Phase.OPEN:
                continue
            case Phase.CLOSED:
                after = _counted(found, held, now, is_success)
            case Phase.HALF_OPEN:
                after = _probed(found, held, now, is_success)
        if after.phase is not found.phase:
            changes.append(after)
        found = after
    return found, changes


def verdicts(
    settled: Iterable[tuple[str, Settlement]], types: Collection[str]
) -> dict[str, list[bool]]:
    """What these settlements say of these types, in order."""
    found: dict[str, list[bool]] = {}
    for type_name, settlement in settled:
        if type_name in types and (said := verdict(settlement)) is not None:
            found.setdefault(type_name, []).append(said)
    return found


def told(type_name: str, changes: Iterable[Standing]) -> list[Group]:
    """The events of changes."""
    return [
        Group(
            _NAMES[one.phase],
            "",
            type_name,
            "",
            bytes(16),
            [{"until_us": one.until} if one.phase is Phase.OPEN else {}],
        )
        for one in changes
    ]


def shown(
    flows: Iterable[BreakerFlow], standings: Mapping[str, Standing], now: int
) -> list[BreakerFlow]:
    """Breakers as people see them: what is said of each, and how it stands."""
    found: list[BreakerFlow] = []
    for one in flows:
        it = waking(standings.get(one.type, Standing()), now)
        found.append(replace(one, phase=it.phase, since=it.since, until=it.until))
    return found


def reset(standing: Standing, now: int) -> Standing:
    """Closed, with nothing counted. A breaker that was closed already is so since then."""
    return Standing(since=standing.since if standing.phase is Phase.CLOSED else now)


def parked(jobs: Iterable[Job], standings: Mapping[str, Standing]) -> list[Job]:
    """The jobs, with the reason where a breaker holds one back."""
    shut = {name for name, it in standings.items() if it.phase is not Phase.CLOSED}
    return [
        replace(job, parked=PARKED)
        if job.type in shut and job.state is State.READY and job.parked is None
        else job
        for job in jobs
    ]


def _counted(standing: Standing, held: Rules, now: int, is_success: bool) -> Standing:
    failures = 0 if is_success else standing.failures + 1
    slices = standing.slices
    if held.ratio is not None:
        slices = _sliced(slices, held, now, not is_success)
    if not is_success and (failures >= held.failures or _is_too_much(slices, held)):
        return _opened(held, now)
    return replace(standing, failures=failures, slices=slices)


def _probed(standing: Standing, held: Rules, now: int, is_success: bool) -> Standing:
    if not is_success:
        return _opened(held, now)
    if standing.successes + 1 >= held.probes:
        return Standing(since=now)
    return replace(standing, successes=standing.successes + 1)


def _opened(held: Rules, now: int) -> Standing:
    return Standing(phase=Phase.OPEN, since=now, until=now + held.cooldown)


def _sliced(
    slices: tuple[tuple[int, int, int], ...], held: Rules, now: int, failures: int
) -> tuple[tuple[int, int, int], ...]:
    current = now // max(held.window // _SLICES, 1)
    kept = [one for one in slices if current - _SLICES < one[0] <= current]
    if kept and kept[-1][0] == current:
        _, outcomes, before = kept.pop()
        return (*kept, (current, outcomes + 1, before + failures))
    return (*kept, (current, 1, int(failures)))


def _is_too_much(slices: tuple[tuple[int, int, int], ...], held: Rules) -> bool:
    if held.ratio is None:
        return False
    outcomes = sum(one[1] for one in slices)
    return outcomes >= held.least and sum(one[2] for one in slices) >= held.ratio * outcomes


_NAMES = {
    Phase.CLOSED: Name.BREAKER_CLOSED,
    Phase.OPEN: Name.BREAKER_OPENED,
    Phase.HALF_OPEN: Name.BREAKER_HALF_OPENED,
}
