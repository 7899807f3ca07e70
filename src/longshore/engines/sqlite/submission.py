"""Store jobs."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from longshore.core import limit_settings
from longshore.core.event import Group, Name
from longshore.core.job import JobId, NewJob, Submitted, Verdict
from longshore.core.priority_rank import strict_rank
from longshore.core.submission import first_run_at
from longshore.engines.sqlite import ordering_keys
from longshore.engines.sqlite.bulk import ABSENT, BulkStatement, blob
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction

__all__ = ["known", "submit"]

_insert_alike = BulkStatement(SQL.job_insert_alike)
_insert_any = BulkStatement(SQL.job_insert)
_job_times = BulkStatement(SQL.job_times)
_get_idempotent = BulkStatement(SQL.idempotency_get)
_put_idempotent = BulkStatement(SQL.idempotency_put)
_get_holders = BulkStatement(SQL.unique_holder)
_put_unique = BulkStatement(SQL.unique_put)
_Times = tuple[int, int]
"""Since when a job is there, and when it is or was due."""
_time_rows = msgspec.json.Decoder(list[tuple[int, str, _Times]])
_key_rows = msgspec.json.Decoder(list[tuple[int, str, str, _Times]])
_holder_rows = msgspec.json.Decoder(list[tuple[int, str]])
_unhex = bytes.fromhex
_json = msgspec.json.Encoder()
_ACCEPTED = Verdict.ACCEPTED
_Orders = dict[str, limit_settings.QueueSettings]
"""What holds for queues that have an order of their own."""
_Arrival = tuple[int, _Orders]
"""When jobs arrive, and at what."""
_orders = msgspec.json.Decoder(_Orders)
_Run = tuple[NewJob, ...]
"""Jobs that are alike, but for id and payload. Never empty."""
_LONG_RUN = 8
"""Jobs that are alike are stored apart from others if there are so many in a row."""
_shared = attrgetter(
    *("type", "queue", "tenant", "priority", "run_at", "delay", "max_attempts", "timeout"),
    *("unique_key", "unique_until", "idempotency_key", "ordering_key", "trace", "tags", "by"),
)


def submit(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Submitted]:
    """Store the jobs in their order and answer for each."""
    if not jobs:
        return []
    newest, arrival, orders = _arrival(transaction)
    accept = _Acceptance(transaction.now, arrival)
    runs = _runs(jobs)
    is_keyed = any(
        job.idempotency_key is not None or job.unique_key is not None for job, *_ in runs
    )
    if not is_keyed and _insert_all(transaction, jobs, runs, (arrival, orders)):
        answers = [answer for run in runs for answer in accept.all(run)]
    else:
        answers = _Standing(transaction.db, jobs, accept).answers()
        accepted = [
            job
            for job, answer in zip(jobs, answers, strict=True)
            if answer.verdict is _ACCEPTED
        ]
        runs = _runs(accepted)
        _insert(transaction, runs, (arrival, orders))
        _put_keys(transaction.db, accepted, accept)
    after = {"after": newest}
    transaction.db.execute(SQL.ready_add_fair if orders else SQL.ready_add, after)
    if any(job.ordering_key is not None for job, *_ in runs):
        ordering_keys.join(transaction, newest)
    if any(job.delay or job.run_at is not None for job, *_ in runs):
        transaction.db.execute(SQL.scheduled_add, after)
    transaction.groups += _events(runs)
    transaction.wakes |= bool(runs)
    return answers


def known(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> set[JobId]:
    """Those of the jobs that stand already, by their ids or their idempotency keys."""
    stored, remembered = _stored(db, jobs), _remembered(db, jobs)
    return {
        job.id
        for job in jobs
        if job.id in stored or (job.tenant, job.idempotency_key) in remembered
    }


def _runs(jobs: Sequence[NewJob]) -> list[_Run]:
    """The jobs in their order, by what all but id and payload have in common."""
    return [tuple(run) for _, run in groupby(jobs, _shared)]


def _arrival(transaction: Transaction) -> tuple[int, int, _Orders]:
    """The newest job; now, or its arrival if the clock was set back since; and orders."""
    newest, last, orders = transaction.db.execute(SQL.last_arrival).fetchone()
    read = _orders.decode(orders) if orders != "{}" else {}
    return newest, max(transaction.now, last), read


def _insert_all(
    transaction: Transaction, jobs: Sequence[NewJob], runs: Sequence[_Run], arrival: _Arrival
) -> bool:
    """Store the jobs; False, and none of them, if an id is known or stands there twice."""
    if len(jobs) == 1:
        return _insert(transaction, runs, arrival) == 1
    db = transaction.db
    db.execute("savepoint plain")
    is_whole = _insert(transaction, runs, arrival) == len(jobs)
    if not is_whole:
        db.execute("rollback to plain")
    db.execute("release plain")
    return is_whole


class _Acceptance:
    """The answers to jobs that are accepted."""

    def __init__(self, now: int, arrival: int) -> None:
        self._now = now
        self._arrival = arrival

    def __call__(self, job: NewJob) -> Submitted:
        return self.all((job,))[0]

    def all(self, run: _Run) -> list[Submitted]:
        """The answers to jobs that are alike: they are due at the same time."""
        arrival = self._arrival
        run_at = first_run_at(run[0], now=self._now, arrival=arrival)
        return [Submitted(job.id, _ACCEPTED, arrival, run_at) for job in run]


class _Key(NamedTuple):
    """What an idempotency key stands for."""

    fingerprint: bytes
    id: JobId
    times: _Times


class _Standing:
    """What the jobs of a call meet: jobs with their ids or keys. Asked for all at once."""

    def __init__(
        self, db: sqlite3.Connection, jobs: Sequence[NewJob], accept: _Acceptance
    ) -> None:
        self._jobs = jobs
        self._accept = accept
        self._stored = _stored(db, jobs)
        self._remembered = _remembered(db, jobs)
        self._holders = _holders(db, jobs)

    def answers(self) -> list[Submitted]:
        """One for each, in order: whoever is accepted stands in the way of those behind."""
        return [self._answer(job) for job in self._jobs]

    def _answer(self, job: NewJob) -> Submitted:
        place = job.tenant, job.idempotency_key or ""
        key = self._remembered.get(place) if job.idempotency_key is not None else None
        owner, times = self._stored.get(job.id, (None, (0, 0)))
        if owner == job.tenant:
            first = key.times if key is not None and key.id == job.id else times
            return Submitted(job.id, Verdict.REPEATED, *first)
        if key is not None:
            if key.fingerprint == job.fingerprint:
                return Submitted(key.id, Verdict.REPEATED, *key.times)
            return Submitted(key.id, Verdict.CONFLICT)
        if owner is not None:
            return Submitted(job.id, Verdict.TAKEN)
        if job.unique_key is not None:
            holder = self._holders.setdefault((job.tenant, job.unique_key), job.id)
            if holder != job.id:
                return Submitted(holder, Verdict.UNIQUE)
        answer = self._accept(job)
        times = answer.created_at, answer.run_at
        self._stored[job.id] = job.tenant, times
        if job.idempotency_key is not None:
            self._remembered[place] = _Key(job.fingerprint, job.id, times)
        return answer


def _stored(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> dict[JobId, tuple[str, _Times]]:
    """The ids that belong to jobs already, whose these are, and their times."""
    rows = [(number, blob(job.id)) for number, job in enumerate(jobs)]
    found = _time_rows.decode(_job_times.read(db, rows))
    return {jobs[number].id: (tenant, times) for number, tenant, times in found}


def _remembered(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> dict[tuple[str, str], _Key]:
    """The idempotency keys that stand for a job already."""
    found = _key_rows.decode(_get_idempotent.read(db, _keys(jobs, "idempotency_key")))
    return {
        (jobs[number].tenant, jobs[number].idempotency_key or ""): _Key(
            _unhex(fingerprint), JobId(_unhex(job_id)), times
        )
        for number, fingerprint, job_id, times in found
    }


def _holders(db: sqlite3.Connection, jobs: Sequence[NewJob]) -> dict[tuple[str, str], JobId]:
    """The jobs that keep others with their unique keys out."""
    found = _holder_rows.decode(_get_holders.read(db, _keys(jobs, "unique_key")))
    return {
        (jobs[number].tenant, jobs[number].unique_key or ""): JobId(_unhex(job_id))
        for number, job_id in found
    }


def _keys(jobs: Sequence[NewJob], name: str) -> list[tuple[object, ...]]:
    return [
        (number, job.tenant, key)
        for number, job in enumerate(jobs)
        if (key := getattr(job, name)) is not None
    ]


def _put_keys(db: sqlite3.Connection, jobs: Sequence[NewJob], accept: _Acceptance) -> None:
    """Remember whose keys these are from now on."""
    idempotent = [
        (
            job.tenant,
            job.idempotency_key,
            blob(job.fingerprint),
            blob(job.id),
            (answer := accept(job)).created_at,
            answer.run_at,
        )
        for job in jobs
        if job.idempotency_key is not None
    ]
    unique = [
        (job.tenant, job.unique_key, blob(job.id)) for job in jobs if job.unique_key is not None
    ]
    _put_idempotent.run(db, idempotent)
    _put_unique.run(db, unique)


def _insert(transaction: Transaction, runs: Sequence[_Run], arrival: _Arrival) -> int:
    """Store the jobs whose ids are not known; how many that were."""
    shared = [_attributes(run[0], arrival, transaction.now) for run in runs]
    if len(runs) > 1 and len(runs) * _LONG_RUN > sum(map(len, runs)):
        rows = [
            (blob(job.id), blob(job.payload), *filled)
            for filled, run in zip(map(_filled, shared), runs, strict=True)
            for job in run
        ]
        return _insert_any.run(transaction.db, rows)
    return sum(
        _insert_alike.run(
            transaction.db, [(blob(job.id), blob(job.payload)) for job in run], *attributes
        )
        for attributes, run in zip(shared, runs, strict=True)
    )


def _attributes(job: NewJob, arrived: _Arrival, now: int) -> tuple[object, ...]:
    """The row of a job without its id and payload."""
    arrival, orders = arrived
    run_at = job.run_at if job.run_at is not None else now + job.delay
    due = run_at if run_at > now else None
    if orders and job.queue in orders:
        begin = arrival if due is None else due
        rank = limit_settings.rank(
            orders[job.queue], job.priority, begin, punctual=due is not None
        )
    elif due is not None:
        rank = strict_rank(job.priority, due, punctual=True)
    else:
        rank = _rank(job.priority, arrival)
    return (
        job.tenant,
        job.queue,
        job.type,
        job.priority,
        rank,
        arrival,
        due,
        job.max_attempts,
        job.timeout,
        job.unique_key,
        job.unique_until.value if job.unique_key is not None else None,
        job.idempotency_key,
        job.ordering_key,
        job.trace,
        _json.encode(job.tags).decode() if job.tags else None,
    )


@lru_cache(32)
def _rank(priority: int, arrival: int) -> int:
    """The jobs of one batch arrive together: their ranks are few."""
    return strict_rank(priority, arrival)


def _filled(attributes: tuple[object, ...]) -> tuple[object, ...]:
    return tuple([ABSENT if value is None else value for value in attributes])


def _events(runs: Iterable[_Run]) -> list[Group]:
    ids: dict[tuple[str, str, str, str | None, str | None], list[bytes]] = {}
    for run in runs:
        first = run[0]
        key = (first.queue, first.type, first.tenant, first.by, first.trace)
        ids.setdefault(key, []).extend([job.id for job in run])
    groups: list[Group] = []
    for (queue, type_name, tenant, by, trace), found in ids.items():
        details: list[dict[str, object]] = [] if by is None else [{"by": by}] * len(found)
        where = (queue, type_name, tenant)
        groups.append(Group(Name.SUBMITTED, *where, b"".join(found), details, trace=trace))
    return groups
