"""The jobs of one batch until each has an outcome: which are sent again, without I/O."""

from collections.abc import Sequence

from longshore.api.jobs import BatchItem
from longshore.client import asks, retrying
from longshore.client.asks import Ask
from longshore.client.documents import Outcome, Submission
from longshore.errors import LongshoreError
from longshore.wire.problems import error_of_problem

__all__ = ["Batch"]


class Batch:
    """Jobs that travel together, each under an idempotency key that it keeps.

    Those that were turned away for now, by a full queue or because their key is under way,
    are to be sent again.
    """

    def __init__(self, jobs: Sequence[Submission]) -> None:
        self._written: dict[int, bytes] = {}
        """By their places, those that are to be sent."""
        self._outcomes: dict[int, Outcome] = {}
        self.is_answered = False
        """The service has said something about its jobs."""
        for place, job in enumerate(jobs):
            try:
                self._written[place] = asks.written(job)
            except LongshoreError as error:
                self._outcomes[place] = Outcome(None, is_new=False, error=error)

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of each, in their order."""
        return [self._outcomes[place] for place in sorted(self._outcomes)]

    def ask(self) -> Ask[list[BatchItem]] | None:
        """The request for those that are to be sent, if any are."""
        return asks.submit_many(list(self._written.values())) if self._written else None

    def take(self, items: Sequence[BatchItem]) -> float:
        """Note the answers; how many seconds those that are sent again wait at least."""
        self.is_answered = True
        longest = 0.0
        for place, item in zip(list(self._written), items, strict=True):
            error = item.problem and error_of_problem(item.problem)
            self._outcomes[place] = Outcome(item.id, item.status == 201, error)
            if item.problem is not None and retrying.may_pass(item.problem):
                longest = max(longest, item.retry_after_seconds or 0.0)
            else:
                del self._written[place]
        return longest

    def fail(self, error: LongshoreError) -> None:
        """What was to be sent has no other answer than this."""
        for place in self._written:
            self._outcomes[place] = Outcome(None, is_new=False, error=error)
