"""What the handlers of one process share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from longshore.api.caps import QueueNames
from longshore.api.quotas import Turns
from longshore.api.session_cache import Desk
from longshore.api.settings import ApiSettings
from longshore.api.submit_audit import Submissions
from longshore.contract import Engine
from longshore.core.job import NewJob, Submitted
from longshore.core.retention import Retention
from longshore.observe.engine import metrics_of
from longshore.observe.metrics import Metrics
from longshore.observe.overview import Overview, preferred
from longshore.operations import deliveries
from longshore.operations.rates import RatesByTenant
from longshore.runtime.clock import Clock, SystemClock
from longshore.runtime.ids import IdSource
from longshore.streaming.hub import Hub
from longshore.tasks.ssrf import Guard

__all__ = ["Service"]

_LABELS_EVERY = 10.0
_PAGES, _PAGES_EACH = 8, 2
"""Pages of jobs read at once, by all and by one tenant: reading one may take 32 MiB."""


@dataclass(slots=True)
class Service:
    """An engine, and what it takes to put jobs into it."""

    engine: Engine
    settings: ApiSettings = field(default_factory=ApiSettings)
    clock: Clock = field(default_factory=SystemClock)
    rates: RatesByTenant = field(default_factory=RatesByTenant)
    ids: IdSource = field(init=False)
    desk: Desk = field(init=False)
    metrics: Metrics = field(init=False)
    overview: Overview = field(init=False)
    hub: Hub = field(init=False)
    submissions: Submissions = field(init=False)
    queue_names: QueueNames = field(init=False)
    pages: Turns = field(init=False)
    tells_who: bool = False
    """Whether the first event of a job says who submitted it."""
    retention: Retention = field(default_factory=Retention)
    """What schedulers are told to keep: whatever is older tells that nobody prunes."""
    webhook_guard: Guard = field(default_factory=deliveries.guard_of)
    """Where webhook endpoints may be."""
    document: Callable[[], bytes] = bytes
    """What /openapi.json answers: written by the application from its routes."""

    def __post_init__(self) -> None:
        self.ids = IdSource(self.clock)
        self.desk = Desk(self.engine)
        self.metrics = metrics_of(self.engine)
        self.overview = Overview(self.engine)
        self.submissions = Submissions(self.engine, self.clock)
        self.queue_names = QueueNames(self.engine)
        self.pages = Turns(most=_PAGES, most_each=_PAGES_EACH)
        settings = self.settings
        self.hub = Hub(
            self.engine, most=settings.max_streams, most_each=settings.max_tenant_streams
        )

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """See `longshore.contract.Producer`; the audit log hears who it was."""
        answers = await self.engine.submit(jobs, independent=independent, max_wait=max_wait)
        if not self.tells_who:
            self.submissions.note(jobs, answers)
        return answers

    async def prefer_labels(self) -> float:
        """Learn whom metrics tell of first, once more names came than there is room for.

        Returns the seconds until it should be called again. The store is asked only then.
        """
        if self.metrics.labels.is_full and (view := await self.overview.view()) is not None:
            self.metrics.labels.prefer(*preferred(view))
        return _LABELS_EVERY

    def leave(self) -> None:
        """Let everyone go who only waits or listens."""
        self.desk.leave()
        self.hub.leave()
