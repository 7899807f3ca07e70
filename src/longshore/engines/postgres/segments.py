"""Turn jobs that arrive together into segments and spans: the columns of one submit call."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from longshore.core.event import Group, Name, encode
from longshore.core.job import NewJob
from longshore.engines.postgres.array_literals import packed, turned
from longshore.engines.postgres.span_masks import MOST_JOBS

__all__ = ["alone", "columns", "lined", "sent"]

MOST_BYTES = 1 << 20
"""Payloads of one segment: a claim of a part of it reads all of them."""
_BYTES = frozenset((9, 20, 24, 25))
"""The columns that are bytes, or no lists."""
_json = msgspec.json.Encoder()

_Alike = tuple[str, int, int, int | None, bool]
_MOST_LINED = 32
"""Jobs with ordering keys of one segment: they are claimed one by one."""
_Segment = list[list[NewJob]]


def grouped(jobs: Iterable[NewJob]) -> list[_Segment]:
    """Segments of spans of jobs. Jobs that are alike keep their order."""
    alike: dict[_Alike, dict[tuple[int | None, int], list[NewJob]]] = {}
    for job in jobs:
        is_lined = job.ordering_key is not None
        key = (job.queue, job.priority, job.max_attempts, job.timeout, is_lined)
        spans = alike.get(key)
        if spans is None:
            spans = alike[key] = {}
        due = (job.run_at, job.delay if job.run_at is None else 0)
        span = spans.get(due)
        if span is None:
            span = spans[due] = []
        span.append(job)
    return [segment for spans in alike.values() for segment in _cut(list(spans.values()))]


class _Columns:
    """The arguments of `longshore.submit`, gathered segment by segment."""

    def __init__(self) -> None:
        self.segments: list[tuple[object, ...]] = []
        self.spans: list[tuple[object, ...]] = []
        self.count = 0
        self.payloads: list[bytes] = []
        self.bounds: list[int] = []
        self.types: list[str] = []
        self.tenants: list[str] = []
        self.groups: list[Group] = []
        self.is_mixed = False

    def add(self, segment: _Segment) -> None:
        """One more segment, behind the others."""
        jobs = segment[0] if len(segment) == 1 else [job for span in segment for job in span]
        first, start = jobs[0], self.count
        types = [job.type for job in jobs]
        tenants = [job.tenant for job in jobs]
        type_name = _common(types)
        tenant = _common(tenants)
        if first.ordering_key is None:
            self._add_spans(segment, type_name)
        ids = b"".join([job.id for job in jobs])
        extras = _extras(jobs)
        payloads = [job.payload for job in jobs]
        lengths = list(map(len, payloads))
        self.count += len(jobs)
        self.payloads.append(b"".join(payloads))
        self.bounds += accumulate(lengths, initial=0)
        self.types += types
        self.tenants += tenants
        self.is_mixed |= not (type_name and tenant)
        names = (first.queue, type_name, tenant)
        limits = (first.priority, first.max_attempts, first.timeout)
        where = (start, self.count, max(lengths), ids)
        self.segments.append((*names, *limits, *where, *extras))
        if extras[1] is None:  # and so no trace context either
            mixed = ([] if type_name else types, [] if tenant else tenants)
            self.groups.append(Group(Name.SUBMITTED, *names, ids, _details(jobs), *mixed))
            return
        self.groups += [_submitted(names, *traced) for traced in _by_trace(jobs).items()]

    def _add_spans(self, segment: _Segment, type_name: str) -> None:
        number, lo = len(self.segments) + 1, 0
        for span in segment:
            first, hi = span[0], lo + len(span)
            types = [] if type_name else sorted({job.type for job in span})
            name = types[0] if len(types) == 1 else type_name
            several = packed(types) if len(types) > 1 else None
            due = (first.run_at, first.delay)
            self.spans.append((number, lo, hi, *due, first.queue, name, several))
            lo = hi


def columns(
    jobs: Sequence[NewJob], *, wakes: bool, extra: Sequence[Group] = ()
) -> tuple[object, ...]:
    """The arguments of `longshore.submit`, behind the clock. `extra` events follow."""
    found = _Columns()
    for segment in grouped(jobs):
        found.add(segment)
    return (
        *turned(found.segments, 12),
        *turned(found.spans, 8),
        found.payloads,
        found.bounds,
        found.types if found.is_mixed else [],
        found.tenants if found.is_mixed else [],
        encode([*found.groups, *extra]),
        wakes,
    )


def lined(jobs: Iterable[NewJob]) -> list[NewJob]:
    """Those that have an ordering key: which spans they are in, their lines decide."""
    return [job for job in jobs if job.ordering_key is not None]


def alone(job: NewJob) -> tuple[object, ...]:
    """The arguments of `longshore.submit_one`, behind the clock."""
    names = (job.queue, job.type, job.tenant)
    limits = (job.priority, job.max_attempts, job.timeout)
    body = encode([_submitted(names, job.trace, [job])])
    due = (job.run_at, job.delay)
    return (*names, *limits, *due, job.id, job.payload, *_extras([job]), body)


def sent(columns: Sequence[Any]) -> list[object]:
    """The columns as the statements of this engine take them: all but bytes packed."""
    return [
        column if place in _BYTES else packed(column) for place, column in enumerate(columns)
    ]


def _common(names: list[str]) -> str:
    """What all of them are; empty when they differ."""
    return names[0] if names.count(names[0]) == len(names) else ""


def _by_trace(jobs: Sequence[NewJob]) -> dict[str | None, list[NewJob]]:
    found: dict[str | None, list[NewJob]] = {}
    for job in jobs:
        found.setdefault(job.trace, []).append(job)
    return found


def _submitted(names: tuple[str, str, str], trace: str | None, jobs: Sequence[NewJob]) -> Group:
    """The first event of these jobs; of the names, type and tenant are empty where mixed."""
    _, type_name, tenant = names
    ids = b"".join([job.id for job in jobs])
    types = [] if type_name else [job.type for job in jobs]
    tenants = [] if tenant else [job.tenant for job in jobs]
    return Group(Name.SUBMITTED, *names, ids, _details(jobs), types, tenants, trace)


def _details(jobs: Sequence[NewJob]) -> list[dict[str, object]]:
    """What the first event of each job tells; mostly nothing."""
    if not any([job.by for job in jobs]):  # a list: three times as fast as a generator
        return []
    return [{} if job.by is None else {"by": job.by} for job in jobs]


def _cut(spans: list[list[NewJob]]) -> list[list[list[NewJob]]]:
    """Several segments where one would be too long or too heavy."""
    jobs = sum(map(len, spans))
    most = MOST_JOBS if spans[0][0].ordering_key is None else _MOST_LINED
    if jobs <= most and sum(len(job.payload) for span in spans for job in span) <= (MOST_BYTES):
        return [spans]
    segments: list[list[list[NewJob]]] = []
    count = most
    weight = 0
    for span in spans:
        is_new = True
        for job in span:
            if count >= most or weight + len(job.payload) > MOST_BYTES:
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


def _extras(jobs: list[NewJob]) -> tuple[str | None, str | None]:
    """The keys of single jobs, and what else they have of their own, by ordinal."""
    keys: dict[str, dict[str, object]] = {}
    own: dict[str, dict[str, object]] = {}
    for place, job in enumerate(jobs):
        if (
            job.idempotency_key is not None
            or job.unique_key is not None
            or job.ordering_key is not None
        ):
            keys[str(place)] = _keys(job)
        if job.trace is not None or job.tags or job.ordering_key is not None:
            facts = {"trace": job.trace, "tags": job.tags or None, "line": job.ordering_key}
            own[str(place)] = {name: fact for name, fact in facts.items() if fact is not None}
    return _text(keys), _text(own)


def _keys(job: NewJob) -> dict[str, object]:
    keys: dict[str, object] = {
        "idempotency_key": job.idempotency_key,
        "unique_key": job.unique_key,
        "unique_until": job.unique_until if job.unique_key is not None else None,
        "ordering_key": job.ordering_key,
    }
    return {name: key for name, key in keys.items() if key is not None}


def _text(facts: dict[str, dict[str, object]]) -> str | None:
    return _json.encode(facts).decode() if facts else None
