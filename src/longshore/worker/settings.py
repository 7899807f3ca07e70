"""How a worker works."""

from dataclasses import dataclass
from datetime import timedelta

from longshore.errors import ConfigError

__all__ = ["WorkerSettings"]

_SHORTEST_LEASE = timedelta(milliseconds=100)
_LONGEST_POLL = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How many jobs a worker runs, from which queues, and how it holds and returns them."""

    queues: tuple[str, ...] = ("default",)
    """In order of preference: `mail,reports`; or with weights: `mail=3,reports=1`."""
    concurrency: int = 64
    """How many jobs run at once in each process, coroutines and threads together."""
    threads: int | None = None
    """The most threads for plain functions in each process; without it, the concurrency."""
    processes: int = 1
    """How many worker processes run side by side."""
    claim_batch: int = 1_000
    """The most jobs that one exchange with the engine claims."""
    lease: timedelta = timedelta(seconds=30)
    """A worker that vanished is missed after this long; it renews three times as often."""
    drain_timeout: timedelta = timedelta(seconds=30)
    """How long a worker that was asked to stop waits for its running jobs."""
    flush_batch: int = 200
    """This many finished jobs are settled without waiting for more."""
    flush_after: timedelta = timedelta(milliseconds=5)
    """Finished jobs wait at most this long for others to be settled with."""
    poll: timedelta = timedelta(seconds=1)
    """An idle worker looks for work at least this often, whether or not it was woken."""
    keeper: bool = True
    """A small process beside each `longshore worker` renews its lease, whatever its handlers
    do, and has its jobs run elsewhere within milliseconds of its death. Linux only."""
    name: str | None = None
    """What people see in the list of workers; without it, host and process id."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense, before anything is started."""
        for name in ("concurrency", "threads", "processes", "claim_batch", "flush_batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"worker.{name} is {value}; it must be at least 1")
        if not self.queues:
            raise ConfigError("worker.queues is empty; name at least one queue")
        if self.lease < _SHORTEST_LEASE:
            raise ConfigError(f"worker.lease is {self.lease}; it must be at least 100 ms")
        if not timedelta(0) < self.poll <= _LONGEST_POLL:
            raise ConfigError(f"worker.poll is {self.poll}; it must be over 0 and at most 1 s")
        for name in ("drain_timeout", "flush_after"):
            if getattr(self, name) < timedelta(0):
                raise ConfigError(f"worker.{name} must not be negative")
