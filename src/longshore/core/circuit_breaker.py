"""A circuit breaker: when jobs of a type that fails are no longer handed out.

Closed, it counts how handlers end. Too many failures open it, and jobs of the type wait; after
the cool-down it is half-open, and a few jobs, the probes, try whether it works again.

A breaker is of all tenants, so failures of one of them alone do not open it while others have
jobs of the type, too: what fails may be that tenant's, such as its payloads. Decision 0060 has
the reasons.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from longshore.core.event import Group, Name
from longshore.core.job import Job, Settlement
from longshore.core.limit_settings import LARGEST, BreakerSettings, Phase
from longshore.core.state import State, Verb

__all__ = [
    "COOLDOWN_US",
    "LEAST",
    "LONGEST_LOOK_US",
    "PARKED",
    "PROBES",
    "WINDOW_US",
    "Outcome",
    "Rules",
    "Standing",
    "look_in",
    "observe",
    "parked",
    "reset",
    "room",
    "rules",
    "told",
    "useless",
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
_MOST_NAMED = 64
"""Tenants that are told apart among those that failed, of a slice or in a row."""
_REST = ""
"""Stands for those that came when so many were known; no tenant is called so."""
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


class Outcome(NamedTuple):
    """How an attempt of a tenant's job ended, as far as it says anything."""

    tenant: str
    is_success: bool


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A part of the window."""

    number: int
    outcomes: int
    failures: int
    by: dict[str, int]
    """The failures by tenant."""


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a breaker stands, and what it has counted."""

    phase: Phase = Phase.CLOSED
    since: int = 0
    """When it came to stand so; 0: it always did."""
    until: int = 0
    """When it is open: the end of the cool-down."""
    failing: dict[str, int] = {}
    """Failures in a row, by tenant; of probes, those since it is half-open."""
    successes: int = 0
    """Of probes."""
    parts: tuple[Slice, ...] = ()
    """The window, in slices."""
    heard: tuple[tuple[str, int], ...] = ()
    """The two tenants that were heard of last, with the slice: enough to know whether any has
    others beside it."""


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
    standing: Standing, held: Rules, outcomes: Iterable[Outcome], now: int
) -> tuple[Standing, list[Standing]]:
    """How it stands after these, in order, and each standing in which its phase changed.

    What ends while it is open began before, and says nothing of now.
    """
    changes: list[Standing] = []
    current = _slice(held, now)
    found = waking(standing, now)
    if found is not standing:
        # While it was open nobody could be heard: that makes no tenant the only one.
        live = _live(standing.heard, _slice(held, standing.since))
        found = replace(found, heard=tuple((name, current) for name, _ in live))
        changes.append(found)
    for one in outcomes:
        if found.phase is Phase.OPEN:
            continue
        heard = _heard(found.heard, one.tenant, current)
        if heard is not found.heard:
            found = replace(found, heard=heard)
        if found.phase is Phase.CLOSED:
            after = _counted(found, held, now, one)
        else:
            after = _probed(found, held, now, one)
        if after.phase is not found.phase:
            changes.append(after)
        found = after
    return found, changes


def verdicts(
    settled: Iterable[tuple[str, str, Settlement]], types: Collection[str]
) -> dict[str, list[Outcome]]:
    """What these settlements, each with its job's type and tenant, say of these types."""
    found: dict[str, list[Outcome]] = {}
    for type_name, tenant, settlement in settled:
        if type_name in types and (said := verdict(settlement)) is not None:
            found.setdefault(type_name, []).append(Outcome(tenant, said))
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


def useless(settings: BreakerSettings, changes: Mapping[str, object]) -> str | None:
    """What is wrong with changes that leave the settings without effect; None: nothing."""
    asked = [field for field, value in changes.items() if value is not None]
    if asked and rules(settings) is None:
        return f"{asked[0]} says nothing without failures or a ratio; set one"
    for field in ("window", "least"):
        if field in asked and settings.ratio is None:
            return f"{field} says nothing without a ratio; set both"
    return None


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


def _counted(standing: Standing, held: Rules, now: int, one: Outcome) -> Standing:
    parts = standing.parts
    if held.ratio is not None:
        parts = _sliced(parts, held, now, one)
    if one.is_success:
        return (
            replace(standing, failing={}, parts=parts)
            if standing.failing or parts
            else standing
        )
    failing = standing.failing
    if held.failures < LARGEST:
        failing = _added(failing, one.tenant, most=held.failures)
    standing = replace(standing, failing=failing, parts=parts)
    is_shared = _is_shared(standing, held, now, one.tenant)
    if _are_too_many(failing, held, one.tenant, is_shared=is_shared):
        return _opened(standing, held, now)
    return _opened(standing, held, now) if _is_too_much(parts, held, is_shared) else standing


def _probed(standing: Standing, held: Rules, now: int, one: Outcome) -> Standing:
    if not one.is_success:
        failing = _added(standing.failing, one.tenant, most=1)
        if len(failing) == 1 and _is_shared(standing, held, now, one.tenant):
            return replace(standing, failing=failing)
        return _opened(standing, held, now)
    if standing.successes + 1 >= held.probes:
        return Standing(since=now, heard=standing.heard)
    return replace(standing, successes=standing.successes + 1)


def _opened(standing: Standing, held: Rules, now: int) -> Standing:
    until = now + held.cooldown
    return Standing(phase=Phase.OPEN, since=now, until=until, heard=standing.heard)


def _are_too_many(
    failing: Mapping[str, int], held: Rules, tenant: str, *, is_shared: bool
) -> bool:
    """Whether there are so many failures in a row that it opens.

    Of several tenants, none counts for more than half of them.
    """
    if len(failing) == 1:
        return not is_shared and failing.get(tenant, 0) >= held.failures
    half = held.failures - held.failures // 2
    return sum(min(count, half) for count in failing.values()) >= held.failures


def _is_too_much(parts: tuple[Slice, ...], held: Rules, is_shared: bool) -> bool:
    """Whether such a share failed that it opens.

    Of several tenants, it must have been so without the one that failed most, too.
    """
    if held.ratio is None:
        return False
    outcomes, failures = sum(one.outcomes for one in parts), sum(one.failures for one in parts)
    if outcomes < held.least or failures < held.ratio * outcomes:
        return False
    if not is_shared:
        return True
    by: dict[str, int] = {}
    for part in parts:
        for name, count in part.by.items():
            by[name] = by.get(name, 0) + count
    most = max((count for name, count in by.items() if name != _REST), default=0)
    return 0 < failures - most >= held.ratio * (outcomes - most)


def _added(failing: Mapping[str, int], tenant: str, *, most: int) -> dict[str, int]:
    name = tenant if tenant in failing or len(failing) < _MOST_NAMED else _REST
    return {**failing, name: min(failing.get(name, 0) + 1, most)}


def _sliced(parts: tuple[Slice, ...], held: Rules, now: int, one: Outcome) -> tuple[Slice, ...]:
    current = _slice(held, now)
    kept = [it for it in parts if current - _SLICES < it.number <= current]
    last = kept.pop() if kept and kept[-1].number == current else Slice(current, 0, 0, {})
    by = last.by if one.is_success else _added(last.by, one.tenant, most=LARGEST)
    failures = last.failures + (not one.is_success)
    return (*kept, Slice(current, last.outcomes + 1, failures, by))


def _slice(held: Rules, now: int) -> int:
    return now // max(held.window // _SLICES, 1)


def _heard(
    heard: tuple[tuple[str, int], ...], tenant: str, current: int
) -> tuple[tuple[str, int], ...]:
    """Those who were heard of last; the same object where there is nothing to be written."""
    if (tenant, current) in heard:
        return heard
    others = [one for one in _live(heard, current) if one[0] != tenant]
    if sum(at == current for _, at in others) == 2:
        return heard
    newest = max(others, key=lambda one: one[1], default=None)
    return ((tenant, current),) if newest is None else (newest, (tenant, current))


def _live(heard: tuple[tuple[str, int], ...], current: int) -> list[tuple[str, int]]:
    return [one for one in heard if current - _SLICES < one[1] <= current]


def _is_shared(standing: Standing, held: Rules, now: int, tenant: str) -> bool:
    """Whether another tenant had outcomes within the window."""
    return any(name != tenant for name, _ in _live(standing.heard, _slice(held, now)))


_NAMES = {
    Phase.CLOSED: Name.BREAKER_CLOSED,
    Phase.OPEN: Name.BREAKER_OPENED,
    Phase.HALF_OPEN: Name.BREAKER_HALF_OPENED,
}
