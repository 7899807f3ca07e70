"""Hypothesis strategies for what callers send to a queue: few names, so that things meet."""

from typing import Any

from hypothesis import strategies as st

from longshore.core.job import UniqueUntil
from longshore.engine import JobFilter, Retention
from longshore.testing.factories import DAY, HOUR, MILLISECOND, MINUTE, SECOND

__all__ = [
    "QUEUES",
    "TENANTS",
    "TYPES",
    "filters",
    "job_options",
    "pauses",
    "retentions",
    "some_queues",
    "some_types",
    "spans",
]

QUEUES = ("mail", "video")
TYPES = ("a", "b", "c")
TENANTS = ("acme", "other")

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
