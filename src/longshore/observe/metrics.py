"""Every metric there is, in one table."""

from collections.abc import Callable, Iterable
from pathlib import Path

from longshore.observe import exposition
from longshore.observe.exposition import Reading
from longshore.observe.metric_types import Counter, Family, Gauge, Histogram, Labels
from longshore.observe.shared_cells import Cells, Totals, gathered

__all__ = ["Metrics"]

_WORK = ("queue", "type")
_CALL = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RUN = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_WAIT = (*_RUN, 1800.0)


class _OfJobs:
    """What becomes of jobs."""

    def __init__(self) -> None:
        self.jobs_submitted = Counter("jobs_submitted_total", "Jobs accepted.", _WORK)
        self.jobs_deduplicated = Counter(
            "jobs_deduplicated_total",
            "Submissions answered with a job that was there already: the same id, idempotency "
            "key or unique key.",
            _WORK,
        )
        self.jobs_claimed = Counter(
            "jobs_claimed_total", "Jobs handed out to workers.", ("queue",)
        )
        self.jobs_succeeded = Counter("jobs_succeeded_total", "Jobs that succeeded.", _WORK)
        self.jobs_failed = Counter(
            "jobs_failed_total",
            "Attempts that ended in an error or a timeout; each is also retried or dead.",
            _WORK,
        )
        self.jobs_retried = Counter(
            "jobs_retried_total", "Attempts after which the job will run again.", _WORK
        )
        self.jobs_dead = Counter("jobs_dead_total", "Jobs set aside as dead.", _WORK)
        self.jobs_cancelled = Counter("jobs_cancelled_total", "Jobs cancelled.", _WORK)
        self.jobs_poisoned = Counter(
            "jobs_poisoned_total",
            "Dead jobs that died alone with their process once too often.",
            _WORK,
        )


class _OfCalls(_OfJobs):
    """What is done about them, and how long that takes."""

    def __init__(self) -> None:
        super().__init__()
        self.leases_acquired = Counter(
            "leases_acquired_total", "Sessions opened by workers, a lease each."
        )
        self.leases_renewed = Counter("leases_renewed_total", "Renewals of leases.")
        self.leases_expired = Counter(
            "leases_expired_total", "Leases that ended with jobs in them and were reclaimed."
        )
        self.stale_settles_rejected = Counter(
            "stale_settles_rejected_total",
            "Settlements refused because the job was no longer the worker's.",
        )
        self.worker_slots = Gauge(
            "worker_slots",
            "Rooms for running jobs: busy, free, and claims waiting.",
            ("state",),
        )
        self.job_wait = Histogram(
            "job_wait_seconds", "From when a job was due to its start.", _WORK, bounds=_WAIT
        )
        self.job_run = Histogram(
            "job_run_seconds", "How long attempts ran.", (*_WORK, "outcome"), bounds=_RUN
        )
        self.claim = Histogram(
            "claim_seconds", "Exchanges with the engine that asked for jobs.", bounds=_CALL
        )
        self.settle = Histogram(
            "settle_seconds", "Exchanges with the engine that settled jobs.", bounds=_CALL
        )
        self.submit = Histogram(
            "submit_seconds", "Submissions, until they were durable.", bounds=_CALL
        )
        self.schedule_lateness = Histogram(
            "schedule_lateness_seconds", "From a due time to its firing.", bounds=_RUN
        )
        self.rate_limited = Counter(
            "rate_limited_total", "Requests answered with 429, by the reason.", ("reason",)
        )
        self.outbox_lag = Gauge(
            "outbox_lag_seconds", "The age of the oldest event that a consumer has not read."
        )
        self.outbox_depth = Gauge(
            "outbox_depth", "Batches of events that the slowest consumer has not read."
        )
        self.outbox_muted = Gauge(
            "outbox_muted",
            "1 while job.progress is left out, because too many events wait for a consumer.",
        )
        self.http_request = Histogram(
            "http_request_seconds",
            "HTTP requests, until the answer was sent.",
            ("method", "route", "status"),
            bounds=_CALL,
        )
        self.http_requests = Counter(
            "http_requests_total", "HTTP requests answered.", ("method", "route", "status")
        )


class Metrics(_OfCalls):
    """The numbers of one process. Nothing here waits, locks or fails."""

    def __init__(self, folder: Path | None = None) -> None:
        """With a folder, the process has neighbours there, and each tells of all."""
        self._folder = folder
        self.refreshers: list[Callable[[], None]] = []
        """Called before the numbers are read: they set gauges to what is true now."""
        super().__init__()
        self.families: dict[str, Family] = {
            one.name: one for one in vars(self).values() if isinstance(one, Family)
        }
        cells, self.labels = Cells(folder), Labels()
        for one in self.families.values():
            one.keep_in(cells, self.labels)
        self._cells = cells

    def text(self, readings: Iterable[Reading] = ()) -> bytes:
        """A page for Prometheus, with these gauges on top."""
        return exposition.text(self.families.values(), self.totals(), readings)

    def totals(self) -> Totals:
        """What this process and its neighbours have counted until now."""
        self.refresh()
        if self._folder is None:
            return self._cells.totals()
        return gathered(self._folder, self._is_kept)

    def refresh(self) -> None:
        """Set this process's gauges to what is true now."""
        for one in self.refreshers:
            one()

    def _is_kept(self, name: str) -> bool:
        family = self.families.get(name)
        return family is not None and family.kind != Gauge.kind
