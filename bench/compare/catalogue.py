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
    has_real: bool = False
    """Whether `longshore bench` can measure it with jobs that have all that real ones have."""
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
_LONGSHORE_KILL = (
    "at once, by the keeper beside each worker process (docs/experiments/e03-rescue.md); if "
    "that is killed too, at the end of the lease (docs/architecture/failure-modes.md)"
)

_CELERY = (
    "celery", "-A", "bench.compare.peers.celery", "worker", "--pool", "solo",
    "--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--hostname",
)  # fmt: skip

PEERS = (
    Peer(
        name="Longshore, PostgreSQL",
        file="longshore",
        runtime=Runtime.OURS,
        store="PostgreSQL",
        workers=_LONGSHORE_WORKERS,
        jobs=1_000_000,
        bulk="submit_many of 1,000",
        has_real=True,
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
        has_real=True,
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
    Peer(
        name="BullMQ",
        file="bullmq",
        runtime=Runtime.NODE,
        store="Valkey",
        workers=_TWICE,
        jobs=100_000,
        bulk="addBulk of 1,000",
        named=12_700,
        redelivery="found by the check for stalled jobs, every 30 s "
        "(docs.bullmq.io/guide/jobs/stalled)",
        wait_seconds=75.0,
    ),
    Peer(
        name="Huey",
        file="huey",
        runtime=Runtime.PYTHON,
        store="Valkey",
        workers=(
            (
                "huey_consumer",
                "bench.compare.peers.huey.huey",
                "-k",
                "process",
                "-w",
                "2",
                "-q",
            ),
        ),
        jobs=40_000,
        bulk="one by one",
        named=4_500,
        redelivery="never: a job is taken off the queue before it runs "
        "(huey.readthedocs.io/en/latest/guide.html)",
        wait_seconds=5.0,
    ),
    Peer(
        name="Taskiq",
        file="taskiq",
        runtime=Runtime.PYTHON,
        store="Valkey",
        workers=(
            (
                "taskiq",
                "worker",
                "bench.compare.peers.taskiq:broker",
                "--workers",
                "2",
                "--max-async-tasks",
                "200",
                "--max-prefetch",
                "200",
                "--log-level",
                "WARNING",
            ),
        ),
        jobs=40_000,
        bulk="100 submits at a time",
        named=4_300,
        redelivery="after 10 minutes, idle_timeout (taskiq-redis README)",
        wait_seconds=5.0,
    ),
    Peer(
        name="Dramatiq",
        file="dramatiq",
        runtime=Runtime.PYTHON,
        store="Valkey",
        workers=(
            (
                "dramatiq",
                "bench.compare.peers.dramatiq",
                "--processes",
                "2",
                "--threads",
                "8",
                "--skip-logging",
            ),
        ),
        jobs=40_000,
        bulk="one by one",
        named=4_200,
        redelivery="after heartbeat_timeout, 60 s (dramatiq.io/reference.html, RedisBroker)",
        wait_seconds=5.0,
    ),
    Peer(
        name="SAQ",
        file="saq",
        runtime=Runtime.PYTHON,
        store="Valkey",
        workers=(("saq", "bench.compare.peers.saq.settings", "--workers", "2", "--quiet"),),
        jobs=30_000,
        bulk="100 submits at a time",
        named=3_000,
        redelivery="aborted by the sweep, since retries is 1 (saq-py.readthedocs.io, Job)",
        wait_seconds=5.0,
    ),
    Peer(
        name="Celery",
        file="celery",
        runtime=Runtime.PYTHON,
        store="Valkey",
        workers=((*_CELERY, "one@%h"), (*_CELERY, "two@%h")),
        jobs=20_000,
        bulk="one by one",
        named=1_800,
        redelivery="never; with acks_late after visibility_timeout, 1 hour "
        "(docs.celeryq.dev, Redis, visibility timeout)",
        wait_seconds=5.0,
    ),
    Peer(
        name="arq",
        file="arq",
        runtime=Runtime.PYTHON,
        store="Valkey",
        workers=(("arq", "bench.compare.peers.arq.WorkerSettings"),) * 2,
        jobs=15_000,
        bulk="100 submits at a time",
        named=1_400,
        redelivery="after job_timeout and 10 s, 310 s (arq-docs.helpmanual.io)",
        wait_seconds=5.0,
        note="it polls, every 20 ms here and every 0.5 s by default",
    ),
    Peer(
        name="Procrastinate",
        file="procrastinate",
        runtime=Runtime.PYTHON,
        store="PostgreSQL",
        workers=_TWICE,
        jobs=7_000,
        bulk="batch_defer_async of 1,000",
        named=700,
        redelivery="not by itself: a task of one's own has to look for stalled jobs "
        "(procrastinate.readthedocs.io, howto/production/retry_stalled_jobs)",
        wait_seconds=5.0,
    ),
    Peer(
        name="RQ",
        file="rq",
        runtime=Runtime.PYTHON,
        store="Valkey",
        workers=_TWICE,
        jobs=3_000,
        bulk="enqueue_many of 1,000",
        named=300,
        redelivery="marked as failed by a later clean-up, not run again unless it was given a "
        "Retry (python-rq.org/docs/exceptions)",
        wait_seconds=5.0,
        note="its SimpleWorker runs jobs in the worker, not in a process forked for each",
    ),
)
