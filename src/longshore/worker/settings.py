"""How a worker works."""

from dataclasses import dataclass
from datetime import timedelta

from longshore.core import units
from longshore.core.poison import MAX_CRASHES
from longshore.errors import ConfigError
from longshore.runtime.process import available_cores

__all__ = ["ChildLimits", "WorkerSettings"]

_COUNTS = (
    "concurrency",
    "threads",
    "processes",
    "children",
    "child_memory_bytes",
    "child_recycle_bytes",
    "child_jobs",
    "max_crashes",
    "claim_batch",
    "flush_batch",
)
_SHORTEST = {
    "lease": timedelta(milliseconds=100),
    "stuck_after": timedelta(seconds=2),
    "drain_timeout": timedelta(0),
    "flush_after": timedelta(0),
    "child_idle": timedelta(0),
    "child_grace": timedelta(0),
}
_LONGEST_POLL = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """How many child processes there are, and when one is stopped, replaced or sent home."""

    most: int = 1
    grace: float = 1.0
    """Seconds between telling a handler to stop and killing it."""
    idle: float = 60.0
    """A child with nothing to do for so many seconds leaves."""
    jobs: int | None = None
    """A child is replaced after so many."""
    recycle_bytes: int | None = None
    """A child that holds more after a job is replaced."""
    memory_bytes: int | None = None
    """A job whose child holds more is killed, unless its task has a limit of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How many jobs a worker runs, from which queues, and how it holds and returns them."""

    queues: tuple[str, ...] = ("default",)
    """In order of preference: `mail,reports`; or with weights: `mail=3,reports=1`."""
    concurrency: int = 64
    """How many jobs run at once in each process, coroutines, threads and child processes
    together."""
    threads: int | None = None
    """The most threads for plain functions in each process; without it, the concurrency."""
    processes: int = 1
    """How many worker processes run side by side."""
    children: int | None = None
    """The most child processes for tasks with `execution="process"`, in each process; without
    it, one per core."""
    child_memory_bytes: int | None = None
    """A job is killed when its child process holds more memory: `512MiB`. A task may have a
    limit of its own."""
    child_recycle_bytes: int | None = None
    """A child process that holds more memory after a job is replaced by a fresh one."""
    child_jobs: int | None = None
    """A child process is replaced by a fresh one after this many jobs."""
    child_idle: timedelta = timedelta(seconds=60)
    """A child process with nothing to do leaves after this long."""
    child_grace: timedelta = timedelta(seconds=1)
    """A handler in a child process that was told to stop is killed after this long."""
    max_crashes: int = MAX_CRASHES
    """A job that was there when so many processes died, and alone in the last, is dead, for the
    reason poison. A task may have a limit of its own."""
    claim_batch: int = 4_000
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
    stuck_after: timedelta = timedelta(seconds=60)
    """A worker that could not claim for this long, though the engine should answer or jobs
    wait that it serves, says so once and is not ready any more."""
    exit_when_stuck: bool = False
    """A worker that is stuck leaves with exit code 76, for a supervisor to start it again."""
    ready_file: str | None = None
    """A file that is there while the worker can claim, and is touched every second."""
    log_successes: int = 100
    """At most so many lines a second tell of jobs that succeeded, one each; the others are
    counted in one more. With the log level debug each has its line; 0 for none."""
    name: str | None = None
    """What people see in the list of workers; without it, host and process id."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense, before anything is started."""
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"worker.{name} is {value}; it must be at least 1")
        if self.log_successes < 0:
            raise ConfigError(
                f"worker.log_successes is {self.log_successes}; it must be at least 0"
            )
        if not self.queues:
            raise ConfigError("worker.queues is empty; name at least one queue")
        if not timedelta(0) < self.poll <= _LONGEST_POLL:
            raise ConfigError(f"worker.poll is {self.poll}; it must be over 0 and at most 1 s")
        for name, least in _SHORTEST.items():
            if (value := getattr(self, name)) < least:
                words = units.duration_text(least)
                raise ConfigError(f"worker.{name} is {value}; it must be at least {words}")

    @property
    def child_limits(self) -> ChildLimits:
        """What is said about child processes."""
        return ChildLimits(
            most=min(self.children or available_cores(), self.concurrency),
            grace=self.child_grace.total_seconds(),
            idle=self.child_idle.total_seconds(),
            jobs=self.child_jobs,
            recycle_bytes=self.child_recycle_bytes,
            memory_bytes=self.child_memory_bytes,
        )
