"""Who is compared, and how each is started. A peer's settings are in its own file."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["PEERS", "Peer", "Runtime"]


class Runtime(StrEnum):
    """What runs a peer's file."""

    OURS = "ours"
    """The environment of this repository."""
    PYTHON = "python"
    """A virtual environment of the peer's own."""
    NODE = "node"
    """Node, with packages of the peer's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One system under comparison."""

    name: str
    file: str
    """Its module in `peers/`, and its pins."""
    runtime: Runtime
    store: str
    workers: tuple[tuple[str, ...], ...]
    """What is started to work off jobs: a program of the peer's environment, or `work`."""
    jobs: int
    """How many are drained: enough for about ten seconds."""
    bulk: str
    """The call that submits many jobs, or what stands in for one."""
    named: float | None = None
    """Jobs per second it reached on such a machine before; under half of it is a mistake."""
    poll_seconds: float = 0.04
    """Latency: pauses between pings are spread over this, so as not to meet a poll."""
    redelivery: str = ""
    """What its documents say of the job of a killed worker, with the page."""
    wait_seconds: float = 45.0
    """How long to wait for that job."""
    note: str = ""
    """What differs, for the reader of the table."""


_TWICE = (("work",), ("work",))
_LONGSHORE_WORKERS = (
    (
        "python", "-m", "longshore", "--app", "bench.compare.peers.longshore:app",
        "worker", "--processes", "2", "--concurrency", "256",
    ),
    ("python", "-m", "longshore", "--app", "bench.compare.peers.longshore:app", "scheduler"),
)  # fmt: skip
_LONGSHORE_KILL = "at the end of the lease, 30 s by default (docs/guides)"

PEERS = (
    Peer(
        name="Longshore, PostgreSQL",
        file="longshore",
        runtime=Runtime.OURS,
        store="PostgreSQL",
        workers=_LONGSHORE_WORKERS,
        jobs=1_000_000,
        bulk="submit_many of 1,000",
        redelivery=_LONGSHORE_KILL,
        note="the scheduler's processor time is counted too",
    ),
    Peer(
        name="Longshore, SQLite",
        file="longshore",
        runtime=Runtime.OURS,
        store="SQLite",
        workers=_LONGSHORE_WORKERS,
        jobs=200_000,
        bulk="submit_many of 1,000",
        redelivery=_LONGSHORE_KILL,
        note="the scheduler's processor time is counted too",
    ),
    Peer(
        name="graphile-worker",
        file="graphile_worker",
        runtime=Runtime.NODE,
        store="PostgreSQL",
        workers=_TWICE,
        jobs=300_000,
        bulk="addJobs of 10,000",
        named=38_000,
        redelivery="after 4 hours (worker.graphile.org/docs/error-handling)",
        wait_seconds=5.0,
        note="jobs of the local queue of a killed process wait 4 hours too",
    ),
    Peer(
        name="pg-boss",
        file="pg_boss",
        runtime=Runtime.NODE,
        store="PostgreSQL",
        workers=_TWICE,
        jobs=150_000,
        bulk="insert of 1,000",
        named=17_900,
        redelivery="after 15 minutes, expireInSeconds (pg-boss docs/api/queues.md)",
        wait_seconds=5.0,
        note="one handler call takes a batch of jobs and settles it as a whole",
    ),
    Peer(
        name="PgQueuer",
        file="pgqueuer",
        runtime=Runtime.PYTHON,
        store="PostgreSQL",
        workers=_TWICE,
        jobs=150_000,
        bulk="enqueue of 1,000",
        named=15_800,
        redelivery="heartbeat_timeout, 30 s by default (PgQueuer docs/guides/heartbeat.md)",
        wait_seconds=75.0,
    ),
)
