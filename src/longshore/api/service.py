"""What the handlers of one process share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from longshore.api.caps import QueueNames
from longshore.api.desk import Desk
from longshore.api.settings import ApiSettings
from longshore.api.submissions import Submissions
from longshore.api.throughput import Throughput
from longshore.core.job import NewJob, Submitted
from longshore.engine import Engine
from longshore.observe.engine import metrics_of
from longshore.observe.metrics import Metrics
from longshore.observe.overview import Overview
from longshore.runtime.clock import Clock, SystemClock
from longshore.runtime.ids import IdSource
from longshore.streaming.hub import Hub

__all__ = ["Service"]


@dataclass(slots=True)
class Service:
    """An engine, and what it takes to put jobs into it."""

    engine: Engine
    settings: ApiSettings = field(default_factory=ApiSettings)
    clock: Clock = field(default_factory=SystemClock)
    throughput: Throughput = field(default_factory=Throughput)
    ids: IdSource = field(init=False)
    desk: Desk = field(init=False)
    metrics: Metrics = field(init=False)
    overview: Overview = field(init=False)
    hub: Hub = field(init=False)
    submissions: Submissions = field(init=False)
    queue_names: QueueNames = field(init=False)
    tells_who: bool = False
    """Whether the first event of a job says who submitted it."""
    document: Callable[[], bytes] = bytes
    """What /openapi.json answers: written by the application from its routes."""

    def __post_init__(self) -> None:
        self.ids = IdSource(self.clock)
        self.desk = Desk(self.engine)
        self.metrics = metrics_of(self.engine)
        self.overview = Overview(self.engine)
        self.submissions = Submissions(self.engine, self.clock)
        self.queue_names = QueueNames(self.engine)
        settings = self.settings
        self.hub = Hub(
            self.engine, most=settings.max_streams, most_each=settings.max_tenant_streams
        )

    async def submit(
        self, jobs: Sequence[NewJob], *, apart: bool = False, patience: float | None = None
    ) -> list[Submitted]:
        """See `longshore.engine.Producer`; the audit log hears who it was."""
        answers = await self.engine.submit(jobs, apart=apart, patience=patience)
        if not self.tells_who:
            self.submissions.note(jobs, answers)
        return answers

    def leave(self) -> None:
        """Let everyone go who only waits or listens."""
        self.desk.leave()
        self.hub.leave()
