"""Turn jobs that arrive together into segments and spans: the columns of one submit call."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from longshore.core.event import Group, Name, encode
from longshore.core.job import NewJob
from longshore.engines.postgres.arrays import packed, turned
from longshore.engines.postgres.spans import MOST_JOBS

__all__ = ["columns", "grouped", "in_order", "sent"]

MOST_BYTES = 1 << 20
"""Payloads of one segment: a claim of a part of it reads all of them."""
_PACKED = frozenset((3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15))
"""The columns that are numbers, or JSON where there is any."""
_json = msgspec.json.Encoder()

_Alike = tuple[str, str, str, int, int, int | None]


def grouped(jobs: Iterable[NewJob]) -> list[list[list[NewJob]]]:
    """Segments of spans of jobs. Jobs that are alike keep their order."""
    alike: dict[_Alike, dict[tuple[int | None, int], list[NewJob]]] = {}
    for job in jobs:
        key = (job.queue, job.type, job.tenant, job.priority, job.max_attempts, job.timeout)
        spans = alike.get(key)
        if spans is None:
            spans = alike[key] = {}
        due = (job.run_at, job.delay if job.run_at is None else 0)
        span = spans.get(due)
        if span is None:
            span = spans[due] = []
        span.append(job)
    return [segment for spans in alike.values() for segment in _cut(list(spans.values()))]


def in_order(jobs: Iterable[NewJob]) -> list[NewJob]:
    """The jobs in the order in which they will stand in the queue if they are of one rank."""
    return [job for segment in grouped(jobs) for span in segment for job in span]


def columns(
    jobs: Sequence[NewJob], *, wakes: bool, extra: Sequence[Group] = ()
) -> tuple[object, ...]:
    """The arguments of `longshore.submit`, behind the clock. `extra` events follow."""
    segments: list[tuple[object, ...]] = []
    spans: list[tuple[object, ...]] = []
    ids: list[bytes] = []
    payloads: list[bytes] = []
    groups: list[Group] = []
    for number, segment in enumerate(grouped(jobs), 1):
        first, start = segment[0][0], len(ids)
        for span in segment:
            lo = len(ids) - start
            ids += [job.id for job in span]
            payloads += [job.payload for job in span]
            due = (span[0].run_at, span[0].delay)
            spans.append((number, lo, lo + len(span), *due, first.queue, first.type))
        joined = b"".join(ids[start:])
        segments.append(
            (
                first.queue,
                first.type,
                first.tenant,
                first.priority,
                first.max_attempts,
                first.timeout,
                start,
                len(ids),
                max(map(len, payloads[start:])),
                joined,
                _attributes(segment),
            )
        )
        groups.append(Group(Name.SUBMITTED, first.queue, first.type, first.tenant, joined))
    body = encode([*groups, *extra])
    return (*turned(segments, 11), *turned(spans, 7), ids, payloads, body, wakes)


def sent(columns: Sequence[Any]) -> list[object]:
    """The columns as the statements of this engine take them: numbers packed."""
    return [
        packed(column) if place in _PACKED else column for place, column in enumerate(columns)
    ]


def _cut(spans: list[list[NewJob]]) -> list[list[list[NewJob]]]:
    """Several segments where one would be too long or too heavy."""
    jobs = sum(map(len, spans))
    if jobs <= MOST_JOBS and sum(len(job.payload) for span in spans for job in span) <= (
        MOST_BYTES
    ):
        return [spans]
    segments: list[list[list[NewJob]]] = []
    count = MOST_JOBS
    weight = 0
    for span in spans:
        is_new = True
        for job in span:
            if count >= MOST_JOBS or weight + len(job.payload) > MOST_BYTES:
                segments.append([])
                count = weight = 0
                is_new = True
            if is_new:
                segments[-1].append([])
                is_new = False
            segments[-1][-1].append(job)
            count += 1
            weight += len(job.payload)
    return segments


def _attributes(segment: list[list[NewJob]]) -> str | None:
    found: dict[str, dict[str, object]] = {}
    place = 0
    for span in segment:
        for job in span:
            own = _own(job)
            if own:
                found[str(place)] = own
            place += 1
    return _json.encode(found).decode() if found else None


def _own(job: NewJob) -> dict[str, object] | None:
    if (
        job.trace is None
        and not job.tags
        and job.idempotency_key is None
        and job.unique_key is None
        and job.ordering_key is None
    ):
        return None
    own: dict[str, Any] = {
        "idempotency_key": job.idempotency_key,
        "unique_key": job.unique_key,
        "unique_until": job.unique_until if job.unique_key is not None else None,
        "ordering_key": job.ordering_key,
        "trace": job.trace,
        "tags": job.tags or None,
    }
    return {name: value for name, value in own.items() if value is not None}
