"""From what a handler did to how its attempt is settled, by the rules of `core.settle`."""

import logging
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from longshore.core import settle
from longshore.core.backoff import LONGEST_US
from longshore.core.job import Failure, Settlement
from longshore.core.state import Verb
from longshore.directives import Cancel, Dead, Directive, Retry, Snooze
from longshore.errors import UnknownTaskError
from longshore.runtime.clock import SECOND
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.child_protocol import ForeignError
from longshore.worker.lease import Standing
from longshore.worker.log_fields import facts
from longshore.worker.retry_budgets import Budgets
from longshore.worker.traceback_text import describe_frames

__all__ = ["Judge", "describe"]

log = logging.getLogger("longshore.worker")

_BROKE_WORKER = (
    "it sent its own worker a signal, cancelled tasks that are not its own, or stopped the "
    "event loop"
)


class Judge:
    """Decides how attempts end. Safe to ask from any thread."""

    def __init__(self, standing: Standing, budgets: Budgets, rng: random.Random) -> None:
        self._standing = standing
        self._budgets = budgets
        self._rng = rng
        self.clock = standing.clock
        """By which attempts begin and end."""

    def undecodable(self, attempt: Attempt, error: BaseException) -> Settlement:
        """The payload is not what the task takes, and no retry will change it."""
        if isinstance(error, UnknownTaskError):
            # The engine hands out only what the session serves. If it ever does not, the job
            # belongs to a worker that knows the task.
            return self._logged(attempt, settle.released(attempt.claim))
        why = settle.failure("payload", _message(error))
        return self._logged(attempt, self._killed(attempt, why, "payload"))

    def keep(self, attempt: Attempt, result: object) -> None:
        """Note what the handler returned; if it cannot be stored, the job is dead.

        What the handler did is done: running it again would do it again.
        """
        if attempt.is_committed:
            if attempt.completion is not None and attempt.completion.result is None:
                log.warning("result not kept: use job.set_result", extra=self._facts(attempt))
            return
        try:
            attempt.result = attempt.handler.encode_result(result)
        except Exception as error:
            attempt.finished = self._standing.clock.monotonic()
            attempt.settlement = self.unstorable(attempt, _message(error))

    def unstorable(self, attempt: Attempt, message: str) -> Settlement:
        """What the handler returned cannot be kept; see `keep`."""
        why = settle.failure("result", message)
        return self._logged(attempt, self._killed(attempt, why, "result"))

    def returned(self, attempt: Attempt) -> Settlement | None:
        """The handler returned; None: it succeeded."""
        if attempt.is_committed or attempt.stop not in (Stop.TIMEOUT, Stop.CRASH):
            return None
        if attempt.stop is Stop.CRASH:
            return self.crashed(attempt, _BROKE_WORKER)
        return self._logged(attempt, self._timed_out(attempt, None))

    def raised(self, attempt: Attempt, error: BaseException) -> Settlement | None:
        """The handler raised, on its own or because it was told to stop; None as above."""
        if attempt.is_committed:
            why = {"error": f"{type(error).__name__}: {_message(error)}"}
            log.warning("handler failed after its commit", extra=self._facts(attempt) | why)
            return None
        if attempt.stop is Stop.CRASH:
            return self.crashed(attempt, _BROKE_WORKER)
        return self._logged(attempt, self._raised(attempt, error))

    def crashed(self, attempt: Attempt, message: str) -> Settlement:
        """The process that ran this attempt, and nothing else, died of it, or would have."""
        handler, claim = attempt.handler, attempt.claim
        crashed = settle.crashed(
            claim,
            settle.failure("crash", message),
            max_crashes=handler.max_crashes,
            delay=handler.backoff.delay(claim.crashes + 1, self._rng.random()),
            **self._times(attempt),
        )
        return self._logged(attempt, self._placed(attempt, crashed))

    def misplaced(self, attempt: Attempt) -> Settlement:
        """It cannot run where it was put, and is given back as if it had been drained."""
        started_at = self._standing.engine_time(attempt.started)
        return self._logged(attempt, settle.released(attempt.claim, started_at=started_at))

    def exceeded(self, attempt: Attempt, held: int, limit: int) -> Settlement:
        """The process that ran this attempt was killed because it held too much memory."""
        words = f"held {held >> 20} MiB of memory; the limit is {limit >> 20} MiB"
        return self._logged(attempt, self._failed(attempt, settle.failure("memory", words)))

    def unfinished(self, attempt: Attempt) -> Settlement:
        """The handler still runs, and nobody waits for it any longer."""
        attempt.finished = attempt.finished or self._standing.clock.monotonic()
        if attempt.is_committed:
            return settle.succeeded(attempt.claim, **self._times(attempt), result=None)
        if attempt.stop is Stop.CRASH:
            return self.crashed(attempt, _BROKE_WORKER)
        if attempt.stop is Stop.TIMEOUT:
            return self._logged(attempt, self._timed_out(attempt, None))
        if attempt.stop is Stop.CANCEL:
            return self._logged(attempt, self._cancelled(attempt))
        started_at = self._standing.engine_time(attempt.started)
        return self._logged(attempt, settle.released(attempt.claim, started_at=started_at))

    def _raised(self, attempt: Attempt, error: BaseException) -> Settlement:
        if attempt.stop is Stop.CANCEL:
            return self._cancelled(attempt)
        if attempt.stop is Stop.TIMEOUT:
            return self._timed_out(attempt, error)
        if isinstance(error, Directive):
            return self._directed(attempt, error)
        if attempt.stop is Stop.DRAIN:
            started_at = self._standing.engine_time(attempt.started)
            return settle.released(attempt.claim, started_at=started_at)
        return self._failed(attempt, describe(error))

    def _directed(self, attempt: Attempt, wish: Directive) -> Settlement:
        reason = _message(wish)
        if isinstance(wish, Dead):
            return self._killed(attempt, settle.failure("Dead", reason), reason or "Dead")
        if isinstance(wish, Cancel):
            return settle.cancelled(
                attempt.claim, reason or "the handler cancelled it", **self._times(attempt)
            )
        after = _microseconds(wish.after) if isinstance(wish, Retry | Snooze) else None
        if isinstance(wish, Snooze) and after is not None:
            return settle.snoozed(attempt.claim, after, **self._times(attempt))
        return self._failed(attempt, settle.failure(type(wish).__name__, reason), after)

    def _cancelled(self, attempt: Attempt) -> Settlement:
        return settle.cancelled(attempt.claim, "cancel was requested", **self._times(attempt))

    def _timed_out(self, attempt: Attempt, error: BaseException | None) -> Settlement:
        seconds = (attempt.claim.timeout or 0) / SECOND
        where = describe(error).traceback if error else ""
        why = settle.failure("timeout", f"ran longer than {seconds:g} s", where)
        return self._failed(attempt, why)

    def _failed(self, attempt: Attempt, why: Failure, after: int | None = None) -> Settlement:
        delay = self._delay(attempt) if after is None else after
        failed = settle.failed(attempt.claim, why, delay=delay, **self._times(attempt))
        return self._placed(attempt, failed)

    def _placed(self, attempt: Attempt, settlement: Settlement) -> Settlement:
        """Where there is room for one more retry of the queue; see `core.retry_budget`."""
        if settlement.verb is not Verb.RETRY:
            return settlement
        delay = self._budgets.delay(attempt.claim.queue, settlement.delay)
        if delay == settlement.delay:
            return settlement
        why = settlement.failure and replace(
            settlement.failure, put_off=delay - settlement.delay
        )
        return replace(settlement, delay=min(delay, LONGEST_US), failure=why)

    def _delay(self, attempt: Attempt) -> int:
        handler, failures = attempt.handler, attempt.claim.failures + 1
        if handler.retry_delay is not None:
            try:
                return int(handler.retry_delay(failures))
            except Exception as error:
                # The task's own function: its fault must not cost the job its retry.
                known = self._facts(attempt) | {"error": repr(error)}
                log.warning("retry delay failed", extra=known)
        return handler.backoff.delay(failures, self._rng.random())

    def _killed(self, attempt: Attempt, why: Failure, reason: str) -> Settlement:
        return settle.killed(attempt.claim, why, reason, **self._times(attempt))

    def _times(self, attempt: Attempt) -> dict[str, int]:
        at = self._standing.engine_time
        return {"started_at": at(attempt.started), "finished_at": at(attempt.finished)}

    def _facts(self, attempt: Attempt) -> dict[str, Any]:
        return facts(attempt.claim, self._standing.worker)

    def _retry(self, delay: int) -> dict[str, Any]:
        due = self._standing.engine_time(self.clock.monotonic()) + delay
        at = datetime.fromtimestamp(due / SECOND, UTC).isoformat(timespec="milliseconds")
        return {"retry_in": delay / SECOND, "retry_at": at.replace("+00:00", "Z")}

    def _logged(self, attempt: Attempt, settlement: Settlement) -> Settlement:
        is_lost, verb = attempt.stop is Stop.LOST, settlement.verb
        level = logging.WARNING if verb is Verb.KILL and not is_lost else logging.INFO
        # Asked first: what is written below costs more than the decision it is about.
        if not log.isEnabledFor(level):
            return settlement
        known: dict[str, Any] = self._facts(attempt)
        if is_lost:
            log.info("attempt dropped", extra=known)
            return settlement
        if settlement.failure:
            known |= {"kind": settlement.failure.kind, "error": settlement.failure.message}
        if verb is Verb.RETRY:
            log.info("attempt failed", extra=known | self._retry(settlement.delay))
        elif verb is Verb.KILL:
            log.warning("job dead", extra=known | {"reason": settlement.reason})
        else:
            log.info("attempt ended", extra=known | {"verb": str(verb)})
        return settlement


def describe(error: BaseException) -> Failure:
    """The exception as it is stored, whatever its `__str__` does."""
    if isinstance(error, ForeignError):
        return error.failure
    return settle.failure(type(error).__name__, _message(error), describe_frames(error))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:
        return f"its message cannot be read: {type(second).__name__}"


def _microseconds(after: timedelta | float | None) -> int | None:
    """The wished delay; None when there is none or it makes no sense."""
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if not isinstance(seconds, int | float) or math.isnan(seconds):
        return None
    return int(min(max(seconds, 0.0) * SECOND, LONGEST_US))
