"""Jobs that stay where they are while someone orders a change, and the ways out of a span."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from longshore.core import ids
from longshore.core.job import JobId
from longshore.engines.postgres.database import Connection, Record
from longshore.engines.postgres.span_masks import (
    mask_between,
    mask_bytes,
    mask_of,
    read_mask,
    stored_mask,
)
from longshore.engines.postgres.sql import SQL
from longshore.errors import EngineBusyError, JobNotFoundError

__all__ = ["Part", "Span", "parts", "secure", "take"]

_ROUNDS = 8
"""A job that moved each time we reached for it moves fast; it may be asked for again."""

Span = tuple[str, Any]
"""The table and the place of a row in it."""


class Part(msgspec.Struct, frozen=True):
    """Some jobs of one span, whose row is locked."""

    span: Record
    jobs: list[Record]
    """By ordinal."""

    @property
    def mask(self) -> int:
        """Which of the span's jobs they are."""
        return mask_of(job["ordinal"] for job in self.jobs)

    def placed(self) -> tuple[object, ...]:
        """Segment, lo, hi, size and mask of a span of these jobs alone."""
        mask = self.mask
        lo, hi = (mask & -mask).bit_length() - 1, mask.bit_length()
        return self.span["segment"], lo, hi, mask.bit_count(), stored_mask(mask, lo, hi)


async def secure(
    connection: Connection,
    job_ids: Iterable[JobId],
    tenant: str | None,
    *,
    independent: bool = False,
) -> tuple[list[Record], dict[Span, Record]]:
    """The jobs, each once and in order, and the spans of those that no session holds.

    Until the transaction ends nobody moves them. One that is missing is a JobNotFoundError, or
    left out if they are `independent`.
    """
    wanted = list(dict.fromkeys(job_ids))
    spans: dict[Span, Record] = {}
    holders: set[int] = set()
    for _ in range(_ROUNDS):
        for row in await connection.fetch(SQL.hold, wanted):
            if row["home"] == "claim":
                holders.add(row["token"])
            else:
                spans[row["home"], row["span"]] = row
        found = {
            row["id"]: row for row in await connection.fetch(SQL.jobs_by_id, wanted, tenant)
        }
        missing = next((job_id for job_id in wanted if job_id not in found), None)
        if missing is not None and not independent:
            raise JobNotFoundError(ids.text(missing))
        if all(
            row["token"] in holders if row["home"] == "claim" else _span(row) in spans
            for row in found.values()
        ):
            return [found[job_id] for job_id in wanted if job_id in found], spans
    raise EngineBusyError("a job moved whenever it was reached for; try again")


def parts(jobs: Sequence[Record], spans: dict[Span, Record]) -> list[Part]:
    """The jobs by the span they are in."""
    together: dict[Span, list[Record]] = {}
    for job in jobs:
        together.setdefault(_span(job), []).append(job)
    return [
        Part(spans[span], sorted(found, key=lambda job: job["ordinal"]))
        for span, found in together.items()
    ]


async def take(connection: Connection, taken: Sequence[Part]) -> None:
    """Remove the jobs from their spans; an empty one is deleted."""
    waiting = {"ready": SQL.take_ready, "scheduled": SQL.take_scheduled}
    for home, statement in waiting.items():
        of_home = [part for part in taken if part.span["home"] == home]
        await connection.executemany(statement, [_rest(part) for part in of_home])
    parked = [part.span["span"] for part in taken if part.span["home"] == "parked"]
    if parked:
        await connection.execute(SQL.take_parked, parked)
    finished = [
        (part.span["span"], [job["ordinal"] for job in part.jobs])
        for part in taken
        if part.span["home"] == "finished"
    ]
    await connection.executemany(SQL.take_finished, finished)


def _span(job: Record) -> Span:
    return job["home"], job["span"]


def _rest(part: Part) -> tuple[object, bytes | None, int]:
    span = part.span
    lo, hi = span["lo"], span["hi"]
    rest = read_mask(span["mask"], lo, hi) & mask_between(lo, hi) & ~part.mask
    return span["span"], mask_bytes(rest, hi) if rest else None, rest.bit_count()
