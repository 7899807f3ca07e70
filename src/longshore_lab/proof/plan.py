"""What a proof is asked to do, and what that means for its load and its faults."""

import sys
from pathlib import Path
from random import Random

import msgspec

from longshore.errors import ConfigError
from longshore_lab.kill import Blow, plan
from longshore_lab.ledger import now
from longshore_lab.records import FaultKind
from longshore_lab.sabotage import PLANTS
from longshore_lab.trial import Trial

__all__ = ["Plan"]

_SECOND = 1_000_000
_LEAD = 3.0
"""Seconds in which the first workers start, before the first job arrives."""
_BURSTS = 50
"""Calls per second of an open loop, unless jobs arrive more seldom."""
_LARGEST_BATCH = 200
_CLOSED_BATCH = 20
_ENDLESS = 20_000_000
_MOST = 3_000_000
"""Jobs whose history fits into the memory of an ordinary machine."""
_FIRST = (FaultKind.KILL, FaultKind.STOP, FaultKind.TERMINATE)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A proof, complete enough to be repeated."""

    url: str | None = None
    """The user's store. The scratch one is made beside it; None for a temporary folder."""
    minutes: float = 1.0
    seed: int = 1
    rate: float = 300.0
    """Jobs per second, in an open loop."""
    in_flight: int | None = None
    """Jobs under way, in a closed loop instead."""
    workers: int = 3
    every: float = 3.0
    """Seconds between two faults, on average."""
    lease: float = 3.0
    """Seconds. Ten times shorter than usual, so that a minute sees it end often."""
    concurrency: int = 128
    """Slots of each worker."""
    only: tuple[FaultKind, ...] = ()
    """Nothing but this is done, and to workers only; empty for everything."""
    sabotage: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if not 0.1 <= self.minutes <= 24 * 60:
            raise ConfigError("--minutes must be between 0.1 and 1440")
        if not 2 <= self.workers <= 64:
            raise ConfigError("--workers must be between 2 and 64: one is always being hit")
        if self.in_flight is None and not 1 <= self.rate * self.seconds <= _MOST:
            raise ConfigError(f"--rate × --minutes must give between 1 and {_MOST:,} jobs")
        if self.in_flight is not None and self.in_flight < _CLOSED_BATCH:
            raise ConfigError(f"--in-flight must be at least {_CLOSED_BATCH}")
        if self.every < 1:
            raise ConfigError("--every must be at least 1 second: a worker has to start")
        if self.sabotage is not None and self.sabotage not in PLANTS:
            raise ConfigError(f"--break knows {', '.join(PLANTS)}")

    @property
    def seconds(self) -> float:
        """How long jobs arrive."""
        return self.minutes * 60

    def trial(self, url: str, folder: Path) -> Trial:
        """The load. It begins a moment from now, when the workers are there."""
        begins = now() + int(_LEAD * _SECOND)
        is_open = self.in_flight is None
        batch = max(1, min(round(self.rate / _BURSTS), _LARGEST_BATCH))
        return Trial(
            url=url,
            folder=str(folder),
            seed=self.seed,
            jobs=round(self.rate * self.seconds) if is_open else _ENDLESS,
            batch=batch if is_open else _CLOSED_BATCH,
            rate=self.rate if is_open else 0.0,
            in_flight=self.in_flight or 0,
            begins=begins,
            ends=begins + int(self.seconds * _SECOND),
            lease_seconds=self.lease,
            concurrency=self.concurrency,
            slow_scale=1.0,
            has_keepers=sys.platform == "linux",
            sabotage=self.sabotage,
        )

    def blows(self) -> list[Blow]:
        """The faults, the same for the same seed: one of each kind first, then by weight."""
        random = Random(self.seed)
        count = int(self.seconds / self.every)
        kinds = random.sample(_FIRST, len(_FIRST))
        if self.only:
            kinds = random.choices(self.only, k=count)
        first = [
            Blow(self.every * (0.5 + random.random()), "worker", kind, random.random())
            for kind in kinds
        ]
        more = max(0, count - len(first))
        return [*first, *plan(self.seed, more, every=self.every)]
