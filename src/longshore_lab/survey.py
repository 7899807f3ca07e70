"""What the queue and the world look like when everything is quiet."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from longshore.contract import JobFilter, Jobs, Outbox
from longshore.core import ids
from longshore.core.event import Name, expand
from longshore.core.state import State
from longshore_lab.effects import Cell, World

__all__ = ["Seen", "Store", "Survey", "survey"]

_PAGE = 1000


class Store(Jobs, Outbox, Protocol):
    """As much of an engine as a survey needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One job, as the engine shows it."""

    seq: int | None
    """From its payload; None when there is none."""
    state: State
    attempt: int
    failures: int
    crashes: int
    lapses: int
    max_attempts: int
    reason: str | None = None
    key: str | None = None


@dataclass(slots=True)
class Survey:
    """The final state, by job."""

    jobs: dict[str, Seen] = field(default_factory=dict[str, Seen])
    events: dict[str, list[Name]] = field(default_factory=dict[str, list[Name]])
    """Each job's transitions, in the outbox's order."""
    cells: dict[int, Cell] = field(default_factory=dict[int, Cell])
    """The outside world, by order number."""


class _Payload(msgspec.Struct):
    seq: int | None = None


_payload = msgspec.json.Decoder(_Payload)


async def survey(store: Store, effects: World, seqs: Iterable[int]) -> Survey:
    """Ask the engine for every job and every event, and the world for every order."""
    return Survey(
        jobs=await _jobs(store),
        events=await _events(store),
        cells={seq: effects.cell(seq) for seq in seqs},
    )


async def _jobs(store: Store) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    cursor: str | None = None
    while True:
        page = await store.find(JobFilter(), limit=_PAGE, cursor=cursor)
        for job in page.jobs:
            found[ids.text(job.id)] = Seen(
                seq=_payload.decode(job.payload).seq,
                state=job.state,
                attempt=job.attempt,
                failures=job.failures,
                crashes=job.crashes,
                lapses=job.lapses,
                max_attempts=job.max_attempts,
                reason=job.reason,
                key=job.idempotency_key,
            )
        cursor = page.cursor
        if cursor is None:
            return found


async def _events(store: Store) -> dict[str, list[Name]]:
    found: defaultdict[str, list[Name]] = defaultdict(list)
    position = 0
    while batches := await store.events(after=position, limit=_PAGE):
        for batch in batches:
            for event in expand(batch):
                found[ids.text(event.job_id)].append(event.name)
        position = batches[-1].position
    return found
