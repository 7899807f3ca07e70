"""What the worker's log lines say of an attempt: the same fields in each of them."""

import logging
from typing import Any

from longshore.core import ids
from longshore.core.job import Claim, Settlement
from longshore.core.state import Verb

__all__ = ["Successes", "facts"]

log = logging.getLogger("longshore.worker")

_TRACE = slice(3, 35)
"""The trace's own part of a W3C traceparent."""


def facts(claim: Claim, worker: str) -> dict[str, Any]:
    """Which attempt, of which job, by whom. Never what is in the payload."""
    found = {
        "job": ids.text(claim.id),
        "type": claim.type,
        "queue": claim.queue,
        "attempt": claim.attempt + 1,
        "worker": worker,
    }
    return found if claim.trace is None else found | {"trace": claim.trace[_TRACE]}


class Successes:
    """A line for each job that succeeded, up to so many a second; the rest are counted.

    A line takes about as long as a no-op job does from submit to settled, so a worker that
    runs tens of thousands a second would do little else.
    """

    def __init__(self, worker: str, most: int) -> None:
        self._worker = worker
        self._most = most
        self._left = most
        self._untold = 0

    def tell(self, claims: list[Claim], settlements: list[Settlement]) -> None:
        """The engine has accepted these; of what did not succeed others tell."""
        if not log.isEnabledFor(logging.INFO) or not self._most:
            return
        if log.isEnabledFor(logging.DEBUG):
            self._left = len(claims)
        for place, (claim, one) in enumerate(zip(claims, settlements, strict=True)):
            if self._left <= 0:
                rest = settlements[place:]
                self._untold += sum(one.verb is Verb.SUCCEED for one in rest)
                return
            if one.verb is Verb.SUCCEED:
                self._left -= 1
                log.info("job succeeded", extra=facts(claim, self._worker) | _times(claim, one))

    def turn(self) -> None:
        """A second has passed."""
        self._left = self._most
        if self._untold:
            extra = {"count": self._untold, "worker": self._worker}
            self._untold = 0
            log.info("more jobs succeeded", extra=extra)


def _times(claim: Claim, one: Settlement) -> dict[str, float]:
    began, ended = one.started_at or 0, one.finished_at or 0
    return {"waited": max(began - claim.run_at, 0) / 1e6, "seconds": (ended - began) / 1e6}
