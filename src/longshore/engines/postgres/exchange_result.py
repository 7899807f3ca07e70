"""What an exchange and the store tell each other besides settlements and claims."""

from collections.abc import Sequence

import msgspec

from longshore.core.job import Claim
from longshore.engines.postgres.held_claims import Row
from longshore.engines.postgres.settlement_plan import Plan

__all__ = ["Meta", "Told", "read_meta", "turns"]


class Meta(msgspec.Struct):
    """The first row of an exchange's answer."""

    now: int
    status: str
    last: int | None
    refused: str | None
    cancel: list[tuple[int, int, str]]
    paused: bool
    missed: bool
    clear: bool
    limited: list[str] | None
    """Queues of which only so many jobs may run; None unless the exchange was applied."""
    fair: list[str] | None
    """Queues whose tenants take turns; None unless the exchange was applied."""
    look_in: int | None
    breakers: list[str] | None
    """Types that have a breaker; None unless the exchange was applied."""
    due: list[str] | None
    """Of them those whose cool-down is over."""
    probed: list[str] | None
    """Of them those that are not closed and may be probed."""


_meta = msgspec.json.Decoder(Meta)


def read_meta(rows: Sequence[Row]) -> Meta:
    """What an exchange's answer begins with."""
    return _meta.decode(rows[0]["attributes"])


def turns(meta: Meta, claims: Sequence[Claim]) -> tuple[str, ...]:
    """Of the queues that these claims are from, those whose tenants take turns."""
    if not meta.fair:
        return ()
    queues = {one.queue for one in claims}
    return tuple(queue for queue in sorted(meta.fair) if queue in queues)


class Told:
    """What the store knows of how many jobs a session holds of queues with a limit."""

    def __init__(self) -> None:
        self._limited: frozenset[str] = frozenset()
        self._jobs: dict[str, int] = {}

    def holds(self, plan: Plan) -> dict[str, int]:
        """What to tell with a plan."""
        if not self._limited:
            return {}
        found = plan.holds()
        return {queue: found[queue] for queue in self._limited}

    def is_news(self, holds: dict[str, int]) -> bool:
        """Whether the store has to hear of it even if nothing else has changed."""
        return holds != self._jobs

    def note(self, meta: Meta, holds: dict[str, int], claims: Sequence[Claim]) -> None:
        """The store has heard it, and has handed out these."""
        if meta.status != "applied":
            return
        self._limited = frozenset(meta.limited or ())
        self._jobs = {queue: jobs for queue, jobs in holds.items() if queue in self._limited}
        if self._jobs:
            for one in claims:
                if one.queue in self._jobs:
                    self._jobs[one.queue] += 1

    def forget(self) -> None:
        """Nobody is sure any more what the store knows."""
        self._jobs = {}
