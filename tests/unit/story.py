"""A history written by hand, one sentence per call, for tests of the checkers."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from longshore.core.event import Name
from longshore.core.state import State, Verb
from longshore_lab.checkers import check
from longshore_lab.effects import Cell
from longshore_lab.history import gather
from longshore_lab.records import (
    CancelAnswer,
    CancelAnswered,
    CancelCalled,
    Claimed,
    Entry,
    Fate,
    Fault,
    FaultKind,
    Outcome,
    Record,
    RunBegan,
    RunEnded,
    Settled,
    SubmitAcknowledged,
    SubmitCalled,
)
from longshore_lab.survey import Seen, Survey

MAX_ATTEMPTS = 2


class Story:
    """Each sentence happens after the one before. The queue's side is written separately."""

    def __init__(self) -> None:
        self.survey = Survey()
        self.entries: list[Entry] = []
        self._times = count(1)

    def waits(self, seconds: float):
        """Let time pass."""
        self._times = count(next(self._times) + int(seconds * 1e6))

    def called(self, *jobs: str, batch="one", fate=Fate.SUCCEEDED, key=None, by="producer"):
        for job in jobs:
            self._say(by, SubmitCalled, job, seq(job), batch, fate, MAX_ATTEMPTS, key)

    def answered(self, *jobs: str, batch="one", verdict="accepted", stands=None, by="producer"):
        for job in jobs:
            self._say(by, SubmitAcknowledged, job, seq(job), batch, stands or job, verdict)

    def submitted(self, *jobs: str, batch="one", fate=Fate.SUCCEEDED, key=None):
        self.called(*jobs, batch=batch, fate=fate, key=key)
        self.answered(*jobs, batch=batch)

    def claimed(self, job: str, delivery: int, by: str):
        called_at = next(self._times)
        self._say(by, Claimed, called_at, job, delivery)

    def began(self, job: str, delivery: int, by: str):
        self._say(by, RunBegan, job, seq(job), delivery, delivery, 1)

    def ended(self, job: str, delivery: int, by: str, outcome=Outcome.RETURNED):
        self._say(by, RunEnded, job, delivery, outcome)

    def settled(self, job: str, delivery: int, by: str, verb=Verb.SUCCEED, accepted=True):
        called_at = next(self._times)
        self._say(by, Settled, called_at, job, delivery, verb, accepted)

    def ran(
        self, job: str, delivery: int, by: str, outcome=Outcome.RETURNED, verb=Verb.SUCCEED
    ):
        """Claimed, run to its end and settled, in peace."""
        self.claimed(job, delivery, by)
        self.began(job, delivery, by)
        self.ended(job, delivery, by, outcome)
        self.settled(job, delivery, by, verb)

    def cancelled(self, job: str, answer: CancelAnswer):
        with self.cancelling(job, answer):
            pass

    @contextmanager
    def cancelling(self, job: str, answer: CancelAnswer) -> Iterator[None]:
        """A cancel that is under way inside the block."""
        self._say("canceller", CancelCalled, job)
        called = self.entries[-1].record.at
        yield
        self._say("canceller", CancelAnswered, called, job, answer)

    def hurt(self, actor: str, kind: FaultKind, seconds: float = 0.0):
        self._say("runner", Fault, actor, kind, seconds)

    def shows(self, job: str, state=State.SUCCEEDED, *, attempt=1, failures=0, **rest):
        """What the engine and the world show of the job in the end."""
        counts = {"crashes": 0, "lapses": 0, "max_attempts": MAX_ATTEMPTS, **rest}
        self.survey.jobs[job] = Seen(
            seq=seq(job), state=state, attempt=attempt, failures=failures, **counts
        )
        self.survey.cells[seq(job)] = Cell(attempt, 1 if state is State.SUCCEEDED else 0)
        tries = [Name.STARTED, Name.FAILED, Name.RETRYING] * failures
        life = {
            State.SUCCEEDED: [*tries, Name.STARTED, Name.SUCCEEDED],
            State.DEAD: [*tries[:-1], Name.DEAD],
            State.CANCELLED: [*tries, Name.CANCELLED],
        }
        self.survey.events[job] = [Name.SUBMITTED, *life.get(state, tries)]

    @property
    def violated(self) -> set[str]:
        """The checkers that found something."""
        findings = check(gather(self.entries), self.survey)
        return {name for name, finding in findings.items() if not finding.holds}

    def _say(self, actor: str, record: type[Record], *facts: object) -> None:
        self.entries.append(Entry(actor, record(next(self._times), *facts)))


def seq(job: str) -> int:
    """The order number of a job called `job-7` is 7."""
    return int(job.rpartition("-")[2])
