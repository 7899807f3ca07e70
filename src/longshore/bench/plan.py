"""What a benchmark does."""

from enum import StrEnum

import msgspec

from longshore.errors import ConfigError

__all__ = ["Mode", "Plan", "Profile"]

_REAL_QUEUES = 4


class Mode(StrEnum):
    """What is measured."""

    STEADY = "steady"
    """Submit and run at the same time, with flat depth: what an engine sustains."""
    DRAIN = "drain"
    """Submit everything first, then run it: how fast a backlog goes."""
    LATENCY = "latency"
    """One job at a time into an idle queue: submit called → handler begins."""


class Profile(StrEnum):
    """What the jobs do."""

    NOOP = "noop"
    """Nothing, in a coroutine: the cost of the queue itself."""
    MIX = "mix"
    """70 % take 1–5 ms, 20 % 200 ms–2 s, 5 % fail once and then succeed, 5 % always fail."""
    REAL = "real"
    """4 queues, 20 types, 50 tenants, 3 priorities, 30 % with an idempotency key, 10 % with one
    of 1,000 ordering keys, 200 bytes of result."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark, complete enough to be repeated."""

    url: str
    mode: Mode = Mode.STEADY
    profile: Profile = Profile.NOOP
    seconds: float = 8.0
    """How long steady measures, after a warm-up of a quarter of it."""
    jobs: int = 100_000
    """How many jobs drain and latency use; latency takes a hundredth."""
    batch: int = 100
    """Jobs per submit call; 1 is one awaited call per job."""
    callers: int = 8
    """How many submit calls are under way at once."""
    depth: int = 10_000
    """Steady: submit no more while this many jobs are not finished."""
    rate: float = 0.0
    """Steady: so many jobs arrive a second, whatever becomes of them; 0: as many as are run."""
    processes: int = 1
    """Worker processes."""
    concurrency: int = 256
    claim_batch: int = 4_000
    payload_bytes: int = 100
    seed: int = 1
    """Mixed: in which order jobs come, and how long each takes."""
    long_seconds: float = 0.0
    """Mixed: one job in ten thousand takes so long, longer than a lease for example."""
    queue: str = "longshore-bench"
    """One of its own for every run: it meets neither users' jobs nor an earlier run's."""

    @property
    def queues(self) -> tuple[str, ...]:
        """Every queue its jobs go to."""
        if self.profile is not Profile.REAL:
            return (self.queue,)
        return tuple(f"{self.queue}-{number}" for number in range(_REAL_QUEUES))

    @property
    def planned(self) -> int:
        """How many jobs a drain submits: whole calls, so it may be some more than asked for."""
        return -(-self.jobs // self.batch) * self.batch

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name in ("jobs", "batch", "callers", "depth", "processes", "concurrency"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name} must be at least 1")
        if not 0 <= self.rate <= 1_000_000:
            raise ConfigError("--rate must be between 0 and 1000000")
        if self.rate and self.mode is not Mode.STEADY:
            raise ConfigError("--rate goes with --mode steady")
        if not 0 < self.seconds <= 3_600:
            raise ConfigError("--seconds must be over 0 and at most 3600")
        if not 0 <= self.payload_bytes <= 500_000:
            raise ConfigError("--payload-bytes must be between 0 and 500000")
        if self.url.startswith("sqlite") and ":memory:" in self.url:
            raise ConfigError("a queue in memory cannot be shared by processes; name a file")
