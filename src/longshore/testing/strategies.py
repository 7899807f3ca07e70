"""Hypothesis strategies for what callers send to a queue: few names, so that things meet."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from longshore.contract import JobFilter, Retention
from longshore.core import settle
from longshore.core.job import Claim, Failure, Report, Settlement, UniqueUntil
from longshore.testing.factories import DAY, HOUR, MILLISECOND, MINUTE, SECOND

__all__ = [
    "KEYS",
    "QUEUES",
    "TENANTS",
    "TYPES",
    "an_end",
    "batch_of",
    "filters",
    "job_options",
    "pauses",
    "reports_of",
    "retentions",
    "seeds",
    "settlement_of",
    "some_of",
    "some_queues",
    "some_types",
    "spans",
]

QUEUES = ("mail", "video")
TYPES = ("a", "b", "c")
TENANTS = ("acme", "other")
KEYS = ("o", "p")
"""Ordering keys."""
WAYS = ("succeed", "fail", "kill", "condemn", "snooze", "put off", "release", "stop")
DELAYS = (0, SECOND, MINUTE)
RESULTS = (None, b"1", b"\xff")
"""The last is no text."""
PAYLOADS = (b"{}", b'{"n": 1}', b' {"\\u0022": "\xc3\xa9"} ')
TRACES = tuple(f"00-{c * 32}-{c * 16}-01" for c in "ab")

seeds = st.integers(0, 2**16 - 1)
"""Chooses what happens to each of hundreds of jobs, which would be too much to draw."""

some_queues = st.lists(st.sampled_from(QUEUES), min_size=1, unique=True)
some_types = st.lists(st.sampled_from(TYPES), min_size=1, unique=True)

spans = st.sampled_from([1, MILLISECOND, SECOND, SECOND, 6 * SECOND, MINUTE, 2 * HOUR, 2 * DAY])
"""How far the clock moves."""

job_options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "type": st.sampled_from(TYPES),
        "tenant": st.sampled_from(TENANTS),
        "priority": st.sampled_from([1, 5, 9]),
        "delay": st.sampled_from([0, 0, 0, MILLISECOND, SECOND, MINUTE]),
        "max_attempts": st.sampled_from([1, 2, 5]),
        "payload": st.sampled_from(PAYLOADS),
    },
    optional={
        "idempotency_key": st.sampled_from("kl"),
        "fingerprint": st.sampled_from([b"1", b"2"]),
        "unique_key": st.sampled_from("uv"),
        "unique_until": st.sampled_from(UniqueUntil),
        "tags": st.sampled_from([("blue",), ("blue", "green")]),
        "ordering_key": st.sampled_from(KEYS),
        "trace": st.sampled_from(TRACES),
    },
)

filters = st.builds(
    JobFilter,
    tenant=st.none() | st.sampled_from(TENANTS),
    queue=st.none() | st.sampled_from(QUEUES),
    type=st.none() | st.sampled_from(TYPES),
    tag=st.none() | st.just("blue"),
)

pauses = st.sampled_from(
    [
        *({"queue": queue} for queue in QUEUES),
        *({"type": type_name} for type_name in TYPES),
        *({"queue": queue, "type": type_name} for queue in QUEUES for type_name in TYPES),
    ]
)

_kept = st.sampled_from([0, MINUTE, HOUR, DAY])

retentions = st.builds(
    Retention, succeeded=_kept, cancelled=_kept, dead=_kept, idempotency=_kept, outbox=_kept
)


def some_of(claims: list[Any], *, least: int = 0) -> st.SearchStrategy[list[Any]]:
    """Some of these claims, each once."""
    if not claims:
        return st.just([])
    return st.lists(st.sampled_from(claims), min_size=least, unique_by=lambda claim: claim.id)


def reports_of(claims: list[Claim]) -> st.SearchStrategy[list[Report]]:
    """What the handlers of some of these say; one may speak more than once."""
    if not claims:
        return st.just([])
    said = st.builds(
        _report,
        st.sampled_from(claims),
        st.sampled_from([0.0, 1 / 3, 1.0]),
        st.sampled_from([None, "", "half way"]),
    )
    return st.lists(said, max_size=3)


def _report(claim: Claim, fraction: float, message: str | None) -> Report:
    return Report(claim.handle, claim.delivery, fraction, message)


def batch_of(size: int, seed: int) -> list[dict[str, Any]]:
    """Options of jobs that arrive together, of mixed type and tenant; a few have keys.

    Most of them are alike in all else, so that an engine may store them together.
    """
    chance = Random(seed)
    places = [_place(chance) for _ in range(chance.choice([1, 1, 2]))]
    return [chance.choice(places) | _content(chance) for _ in range(size)]


def _place(chance: Random) -> dict[str, Any]:
    return {
        "queue": chance.choice(QUEUES),
        "priority": chance.choice([1, 5, 9]),
        "delay": chance.choice([0, 0, 0, SECOND]),
        "max_attempts": chance.choice([1, 2, 5]),
    }


def _content(chance: Random) -> dict[str, Any]:
    content: dict[str, Any] = {
        "type": chance.choice(TYPES),
        "tenant": chance.choice(TENANTS),
        "payload": chance.choice(PAYLOADS),
        "trace": chance.choice([None, *TRACES]),
    }
    keys = {"unique_key": "uv", "idempotency_key": "kl", "ordering_key": KEYS}
    if chance.random() < 0.05:
        name = chance.choice(list(keys))
        content[name] = chance.choice(keys[name])
    return content


def settlement_of(data: st.DataObject, claim: Claim, now: int) -> Settlement:
    """One way in which a worker may end this claim."""
    way, delay = data.draw(st.sampled_from(WAYS)), data.draw(st.sampled_from(DELAYS))
    return _end(claim, way, now, delay=delay, result=data.draw(st.sampled_from(RESULTS)))


def an_end(chance: Random, claim: Claim, now: int) -> Settlement:
    """One way to end this claim, more often than not a good one."""
    way = chance.choice([*WAYS, *["succeed"] * 5])
    return _end(claim, way, now, delay=chance.choice(DELAYS), result=chance.choice(RESULTS))


def _end(claim: Claim, way: str, now: int, *, delay: int, result: bytes | None) -> Settlement:
    at = {"started_at": now, "finished_at": now}
    match way:
        case "succeed":
            return settle.succeeded(claim, started_at=now, finished_at=now, result=result)
        case "fail":
            return settle.failed(claim, Failure("E", "e", "t"), delay=delay, **at)
        case "kill":
            return settle.killed(claim, Failure("E", "e"), "no use", **at)
        case "condemn":
            return settle.condemned(claim)
        case "snooze":
            return settle.snoozed(claim, delay, **at)
        case "put off":
            return settle.put_off(claim, delay)
        case "release":
            # A handler that a drain stopped had started.
            return settle.released(claim, started_at=now if delay else None)
        case _:
            return settle.cancelled(claim, "asked to", **at)
