"""Hypothesis strategies for what callers send to a queue: few names, so that things meet."""

from typing import Any

from hypothesis import strategies as st

from longshore.core import settle
from longshore.core.job import Claim, Failure, Report, Settlement, UniqueUntil
from longshore.engine import JobFilter, Retention
from longshore.testing.factories import DAY, HOUR, MILLISECOND, MINUTE, SECOND

__all__ = [
    "KEYS",
    "QUEUES",
    "TENANTS",
    "TYPES",
    "filters",
    "job_options",
    "pauses",
    "reports_of",
    "retentions",
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
    },
    optional={
        "idempotency_key": st.sampled_from("kl"),
        "fingerprint": st.sampled_from([b"1", b"2"]),
        "unique_key": st.sampled_from("uv"),
        "unique_until": st.sampled_from(UniqueUntil),
        "tags": st.sampled_from([("blue",), ("blue", "green")]),
        "ordering_key": st.sampled_from(KEYS),
        "trace": st.sampled_from([f"00-{c * 32}-{c * 16}-01" for c in "ab"]),
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


def settlement_of(data: st.DataObject, claim: Claim, now: int) -> Settlement:
    """One way in which a worker may end this claim."""
    at = {"started_at": now, "finished_at": now}
    delay = data.draw(st.sampled_from([0, SECOND, MINUTE]))
    match data.draw(st.sampled_from(WAYS)):
        case "succeed":
            return settle.succeeded(claim, started_at=now, finished_at=now, result=b"1")
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
            return settle.released(claim, started_at=data.draw(st.sampled_from([None, now])))
        case _:
            return settle.cancelled(claim, "asked to", **at)
