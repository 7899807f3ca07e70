"""Counts what the engine accepted of a worker: how jobs ended, how long they waited and ran."""

from collections.abc import Collection, Iterable

from longshore.core.job import Claim, Settlement
from longshore.core.state import Verb
from longshore.engine import Reference
from longshore.observe.metrics import Metrics

__all__ = ["Meter"]

_OUTCOMES = {
    Verb.SUCCEED: "succeeded",
    Verb.RETRY: "failed",
    Verb.KILL: "dead",
    Verb.CANCEL: "cancelled",
    Verb.SNOOZE: "snoozed",
    Verb.RELEASE: "released",
}

_Settled = tuple[Claim, Settlement]


class Meter:
    """Adds a batch at a time. What this costs, every job pays: see `bench/worker_meter.py`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def count(
        self,
        claims: list[Claim],
        settlements: list[Settlement],
        *,
        special: int,
        refused: Collection[Reference],
    ) -> None:
        """The engine settled these, but for the refused; `special` did not plainly succeed."""
        pairs = zip(claims, settlements, strict=True)
        if not special and not refused:
            self._succeeded(pairs)
            return
        plain: list[_Settled] = []
        for claim, one in pairs:
            if refused and (one.handle, one.delivery) in refused:
                continue
            if one.verb is Verb.SUCCEED:
                plain.append((claim, one))
            else:
                self._ended(claim, one)
        self._succeeded(plain)

    def _succeeded(self, pairs: Iterable[_Settled]) -> None:
        lines: dict[tuple[str, str], list[_Settled]] = {}
        for pair in pairs:
            claim = pair[0]
            key = (claim.queue, claim.type)
            if key in lines:
                lines[key].append(pair)
            else:
                lines[key] = [pair]
        metrics = self._metrics
        for key, line in lines.items():
            metrics.jobs_succeeded.add(len(line), *key)
            times = [
                (one.started_at, one.finished_at, claim.run_at)
                for claim, one in line
                if one.started_at is not None and one.finished_at is not None
            ]
            metrics.job_wait.observe_all([began - due for began, _, due in times], *key)
            metrics.job_run.observe_all(
                [ended - began for began, ended, _ in times], *key, "succeeded"
            )

    def _ended(self, claim: Claim, one: Settlement) -> None:
        metrics, line = self._metrics, (claim.queue, claim.type)
        verb = one.verb
        if one.failure is not None and one.charge:
            metrics.jobs_failed.add(1, *line)
        if verb is Verb.RETRY:
            metrics.jobs_retried.add(1, *line)
        elif verb is Verb.KILL:
            metrics.jobs_dead.add(1, *line)
            metrics.jobs_poisoned.add(one.reason == "poison", *line)
        elif verb is Verb.CANCEL:
            metrics.jobs_cancelled.add(1, *line)
        if one.started_at is not None and one.finished_at is not None:
            metrics.job_wait.observe((one.started_at - claim.run_at) / 1e6, *line)
            seconds = (one.finished_at - one.started_at) / 1e6
            metrics.job_run.observe(seconds, *line, _OUTCOMES[verb])
