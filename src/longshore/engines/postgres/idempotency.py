"""The keys of new jobs, as the statements take them."""

from collections.abc import Collection, Container, Iterable, Sequence
from typing import NamedTuple

from longshore.core.job import NewJob
from longshore.engines.postgres.array_literals import packed_columns

__all__ = ["Key", "asked", "keyed", "keys_of", "lined", "named", "split"]


class Key(NamedTuple):
    """What someone else may hold."""

    tenant: str
    kind: str
    key: str
    queue: str = ""
    """That of a line; other keys are the tenant's."""


def keys_of(jobs: Iterable[NewJob]) -> list[Key]:
    """All that someone else may hold of what these jobs come with."""
    found: list[Key] = []
    for job in jobs:
        if job.idempotency_key:
            found.append(Key(job.tenant, "once", job.idempotency_key))
        if job.unique_key:
            found.append(Key(job.tenant, "unique", job.unique_key))
        if job.ordering_key:
            found.append(Key(job.tenant, "line", job.ordering_key, job.queue))
    return found


def split(jobs: Sequence[NewJob], held: Container[Key]) -> tuple[list[int], list[int]]:
    """The places of the jobs that come with one of these keys, and of the others."""
    waits, rest = list[int](), list[int]()
    for place, job in enumerate(jobs):
        is_held = any(key in held for key in keys_of((job,)))
        (waits if is_held else rest).append(place)
    return waits, rest


def named(keys: Collection[Key]) -> list[list[str]]:
    """The arguments of `longshore.keys_held`."""
    return [list(column) for column in zip(*keys, strict=True)]


def keyed(jobs: Sequence[NewJob]) -> list[str]:
    """The arguments of `longshore.submit_keyed` that say which jobs have which keys."""
    once = [
        (
            *(job.tenant, job.idempotency_key, job.fingerprint),
            *(job.id.hex(), job.run_at, job.delay),
        )
        for job in jobs
        if job.idempotency_key is not None
    ]
    unique = [
        (job.tenant, job.unique_key, job.id.hex()) for job in jobs if job.unique_key is not None
    ]
    return [*packed_columns(once, 6), *packed_columns(unique, 3)]


def lined(jobs: Sequence[NewJob]) -> list[str]:
    """The arguments of `longshore.line_up_new` that say which jobs they are."""
    return packed_columns([(job.id.hex(), job.run_at, job.delay) for job in jobs], 3)


def asked(jobs: Sequence[NewJob]) -> tuple[list[object], ...]:
    """The arguments of `longshore.admit` behind the clock."""
    return (
        [job.id for job in jobs],
        [job.tenant for job in jobs],
        [job.idempotency_key for job in jobs],
        [job.fingerprint for job in jobs],
        [job.unique_key for job in jobs],
        [job.run_at for job in jobs],
        [job.delay for job in jobs],
    )
