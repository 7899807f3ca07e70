"""The jobs of one batch until each has an outcome: which are sent again, without I/O."""

from collections.abc import Sequence

from longshore.client import requests, retrying
from longshore.client.documents import Outcome, Submission
from longshore.client.requests import Ask
from longshore.errors import LongshoreError
from longshore.operations.job_documents import BatchItem
from longshore.wire.problems import error_of_problem

__all__ = ["Batch"]


class Batch:
    """Jobs that travel together, each under an idempotency key that it keeps.

    Those that were turned away for now, by a full queue or because their key is under way,
    are to be sent again, once all have been sent.
    """

    def __init__(self, jobs: Sequence[Submission]) -> None:
        self._written: dict[int, bytes] = {}
        """By their places, those that are to be sent."""
        self._turned_away: dict[int, float] = {}
        """Those of them that are to be sent again, and how many seconds they wait at least."""
        self._sent: list[int] = []
        """The places of those of the last request."""
        self._most = len(jobs)
        """How many go into one request."""
        self._outcomes: dict[int, Outcome] = {}
        self.is_answered = False
        """The service has said something about its jobs."""
        for place, job in enumerate(jobs):
            try:
                self._written[place] = requests.written(job)
            except LongshoreError as error:
                self._outcomes[place] = Outcome(None, is_new=False, error=error)

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of each, in their order."""
        return [self._outcomes[place] for place in sorted(self._outcomes)]

    def ask(self) -> Ask[list[BatchItem]] | None:
        """The request for those that are to be sent, if any are."""
        places = [place for place in self._written if place not in self._turned_away]
        self._sent = (places or list(self._written))[: self._most]
        if not self._sent:
            return None
        return requests.submit_many([self._written[place] for place in self._sent])

    def shrink(self, most: int | None) -> bool:
        """Send so many in one request from now on; whether that is fewer than before."""
        if most is None or not 0 < most < len(self._sent):
            return False
        self._most = most
        return True

    def take(self, items: Sequence[BatchItem]) -> float | None:
        """Note the answers; how many seconds those that are sent again wait at least.

        None while others have not been sent yet, which need not wait.
        """
        self.is_answered = True
        for place, item in zip(self._sent, items, strict=True):
            error = item.problem and error_of_problem(item.problem)
            self._outcomes[place] = Outcome(item.id, item.status == 201, error)
            if item.problem is not None and retrying.may_pass(item.problem):
                self._written[place] = self._written.pop(place)  # behind the others
                self._turned_away[place] = item.retry_after_seconds or 0.0
            else:
                del self._written[place]
                self._turned_away.pop(place, None)
        if len(self._turned_away) < len(self._written):
            return None
        return max(self._turned_away.values(), default=0.0)

    def fail(self, error: LongshoreError) -> None:
        """What was to be sent has no other answer than this."""
        for place in self._written:
            self._outcomes[place] = Outcome(None, is_new=False, error=error)
