"""Store jobs."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from longshore.core.event import Group, Name
from longshore.core.job import JobId, NewJob, Submitted, UniqueUntil, Verdict
from longshore.core.rank import strict_rank
from longshore.core.submission import first_run_at
from longshore.engines.sqlite.bulk import ABSENT, BulkStatement, blob
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.writer import Transaction

__all__ = ["submit"]

_insert_alike = BulkStatement(SQL.job_insert_alike)
_insert_any = BulkStatement(SQL.job_insert)
_json = msgspec.json.Encoder()
_LONG_RUN = 8
"""Jobs that are alike are stored apart from others if there are so many in a row."""
_shared = attrgetter(
    *("type", "queue", "tenant", "priority", "run_at", "delay", "max_attempts", "timeout"),
    *("unique_key", "unique_until", "idempotency_key", "ordering_key", "trace", "tags"),
)


def submit(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Submitted]:
    """Store the jobs in their order and answer for each."""
    if not jobs:
        return []
    newest, arrival = _arrival(transaction)
    if any(job.idempotency_key is not None or job.unique_key is not None for job in jobs):
        answers = [_submit_keyed(transaction, job, arrival) for job in jobs]
    else:
        answers = _submit_plain(transaction, jobs, arrival)
    after = {"after": newest}
    transaction.db.execute(SQL.ready_add, after)
    if any(job.delay or job.run_at is not None for job in jobs):
        transaction.db.execute(SQL.scheduled_add, after)
    accepted = [
        job
        for job, answer in zip(jobs, answers, strict=True)
        if answer.verdict is Verdict.ACCEPTED
    ]
    transaction.groups += _events(accepted)
    transaction.wakes |= bool(accepted)
    return answers


def _arrival(transaction: Transaction) -> tuple[int, int]:
    """The newest job, and now, or its arrival if the clock was set back since."""
    last = transaction.db.execute(SQL.last_arrival).fetchone()
    return (last[0], max(transaction.now, last[1])) if last else (0, transaction.now)


def _submit_plain(
    transaction: Transaction, jobs: Sequence[NewJob], arrival: int
) -> list[Submitted]:
    if len(jobs) == 1:
        return _submit_each(transaction, jobs, arrival)
    db = transaction.db
    db.execute("savepoint plain")
    if _insert(transaction, jobs, arrival) == len(jobs):
        db.execute("release plain")
        return [_accepted(transaction, job, arrival) for job in jobs]
    # Some ids are known, or stand twice in the batch: rare enough to go one by one.
    db.execute("rollback to plain")
    db.execute("release plain")
    return _submit_each(transaction, jobs, arrival)


def _submit_each(
    transaction: Transaction, jobs: Sequence[NewJob], arrival: int
) -> list[Submitted]:
    return [
        _accepted(transaction, job, arrival)
        if _insert(transaction, [job], arrival)
        else Submitted(job.id, Verdict.REPEATED, *(_times(transaction, job) or ()))
        for job in jobs
    ]


def _submit_keyed(transaction: Transaction, job: NewJob, arrival: int) -> Submitted:
    standing = _standing(transaction, job)
    if standing is not None:
        return standing
    db = transaction.db
    _insert(transaction, [job], arrival)
    answer = _accepted(transaction, job, arrival)
    scope = {"tenant": job.tenant, "id": job.id}
    if job.idempotency_key is not None:
        key = {"key": job.idempotency_key, "fingerprint": job.fingerprint}
        when = {"arrival": arrival, "run_at": answer.run_at}
        db.execute(SQL.idempotency_put, {**scope, **key, **when})
    if job.unique_key is not None:
        db.execute(SQL.unique_put, {**scope, "key": job.unique_key})
    return answer


def _standing(transaction: Transaction, job: NewJob) -> Submitted | None:
    """The answer, if another job stands for this one or keeps it out."""
    key = _remembered(transaction, job)
    times = _times(transaction, job)
    if times is not None:
        first = key.times if key is not None and key.id == job.id else times
        return Submitted(job.id, Verdict.REPEATED, *first)
    if key is not None:
        if key.fingerprint == job.fingerprint:
            return Submitted(key.id, Verdict.REPEATED, *key.times)
        return Submitted(key.id, Verdict.CONFLICT)
    holder = _holder(transaction, job)
    if holder is not None:
        return Submitted(holder, Verdict.UNIQUE)
    return None


def _accepted(transaction: Transaction, job: NewJob, arrival: int) -> Submitted:
    run_at = first_run_at(job, now=transaction.now, arrival=arrival)
    return Submitted(job.id, Verdict.ACCEPTED, arrival, run_at)


def _times(transaction: Transaction, job: NewJob) -> tuple[int, int] | None:
    return transaction.db.execute(SQL.job_times, {"id": job.id}).fetchone()


class _Key(NamedTuple):
    """What an idempotency key stands for."""

    fingerprint: bytes
    id: JobId
    times: tuple[int, int]


def _remembered(transaction: Transaction, job: NewJob) -> _Key | None:
    if job.idempotency_key is None:
        return None
    key = {"tenant": job.tenant, "key": job.idempotency_key}
    found = transaction.db.execute(SQL.idempotency_get, key).fetchone()
    return None if found is None else _Key(found[0], JobId(found[1]), (found[2], found[3]))


def _holder(transaction: Transaction, job: NewJob) -> JobId | None:
    """The live job that keeps this one out."""
    if job.unique_key is None:
        return None
    key = {"tenant": job.tenant, "key": job.unique_key}
    found = transaction.db.execute(SQL.unique_holder, key).fetchone()
    if found is None:
        return None
    holder, until, is_finished, is_running = found
    is_held = not is_finished and (not is_running or until == UniqueUntil.FINISHED)
    return JobId(holder) if is_held else None


def _insert(transaction: Transaction, jobs: Sequence[NewJob], arrival: int) -> int:
    """Store the jobs whose ids are not known; how many that were."""
    runs = [list(run) for _, run in groupby(jobs, _shared)]
    shared = [_attributes(run[0], arrival, transaction.now) for run in runs]
    if len(runs) > 1 and len(runs) * _LONG_RUN > len(jobs):
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


def _attributes(job: NewJob, arrival: int, now: int) -> tuple[object, ...]:
    """The row of a job without its id and payload."""
    run_at = job.run_at if job.run_at is not None else now + job.delay
    if run_at > now:
        due, rank = run_at, strict_rank(job.priority, run_at, punctual=True)
    else:
        due, rank = None, _rank(job.priority, arrival)
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


def _events(jobs: Iterable[NewJob]) -> list[Group]:
    ids: dict[tuple[str, str, str], list[bytes]] = {}
    for job in jobs:
        ids.setdefault((job.queue, job.type, job.tenant), []).append(job.id)
    return [Group(Name.SUBMITTED, *key, b"".join(found)) for key, found in ids.items()]
