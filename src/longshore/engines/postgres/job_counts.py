"""How many jobs there are, by queue and state: counted, or estimated where counting takes long.

An estimate reads the front of each type up to a bound. Where that is not all, it counts on some
pages of the table.
"""

from collections.abc import Collection, Sequence

from longshore.core.priority_rank import first_ranks
from longshore.core.state import State
from longshore.core.view import QueueCounts
from longshore.engines.postgres.database import Database, Record
from longshore.engines.postgres.sql import SQL

__all__ = ["counts", "estimate"]

_BOUND = 5_000
"""Spans that are counted one by one, of all ready ones and of each other kind."""
_LEAST = 100
"""Of each type, however many types there are."""
_PAGES = 500
"""Of each table. With so many, an estimate is within a tenth in 19 of 20 cases."""
_RANKS = first_ranks()


async def counts(database: Database, *, tenant: str | None = None) -> list[QueueCounts]:
    """Every queue at a glance."""
    if tenant is None:
        lines = await database.fetch(SQL.counts)
    else:
        lines = await database.fetch(SQL.counts_of_tenant, tenant)
    return await _shown(database, _read(lines), ())


async def estimate(database: Database) -> list[QueueCounts]:
    """The same, where what waits may be an estimate: a matter of a moment at any depth."""
    lines = await database.fetch(SQL.counts_bounded, _BOUND, _LEAST, _RANKS)
    found = _read(lines)
    over = {(line["queue"], line["state"]) for line in lines if line["is_over"]}
    many = {state for _, state in over if state != State.READY}
    told = {queue for queue, _ in over}
    if over:
        for line in await database.fetch(SQL.counts_sampled, _PAGES):
            queue, state = line["queue"], line["state"]
            if (queue, state) in over or state in many:
                facts = found.setdefault(queue, {})
                facts[state] = max(line["jobs"], facts.get(state, 0))
                told.add(queue)
    return await _shown(database, found, told)


def _read(lines: Sequence[Record]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for line in lines:
        if not line["jobs"]:
            continue
        facts = found.setdefault(line["queue"], {})
        facts[line["state"]] = line["jobs"]
        if line["state"] == State.READY:
            facts["oldest_ready_at"] = line["oldest"]
        elif line["state"] == State.RUNNING:
            facts["buffered"] = line["buffered"]
    return found


async def _shown(
    database: Database, found: dict[str, dict[str, int]], over: Collection[str]
) -> list[QueueCounts]:
    known = {queue for queue, facts in found.items() if facts.keys() != {"pruned"}}
    for facts in found.values():
        # They are counted apart; they are ready all the same.
        facts["ready"] = facts.get("ready", 0) + facts.get("parked", 0)
    paused = {row["queue"] for row in await database.fetch(SQL.paused_queues)}
    said = {row["queue"] for row in await database.fetch(SQL.flows)}
    return [
        QueueCounts(
            queue=queue,
            is_paused=queue in paused,
            is_estimate=queue in over,
            **found.get(queue, {}),
        )
        for queue in sorted(known | paused | said)
    ]
