"""Counts what the engine accepted of a worker: how jobs ended, how long they waited and ran."""

from collections.abc import Collection
from operator import attrgetter, sub
from typing import cast

from longshore.contract import Reference
from longshore.core.job import Claim, Settlement
from longshore.core.state import Verb
from longshore.observe.metrics import Metrics
from longshore.worker.retry_budgets import Budgets

__all__ = ["Meter"]

_OUTCOMES = {
    Verb.SUCCEED: "succeeded",
    Verb.RETRY: "failed",
    Verb.KILL: "dead",
    Verb.CANCEL: "cancelled",
    Verb.SNOOZE: "snoozed",
    Verb.RELEASE: "released",
}

_line = attrgetter("queue", "type")


class Meter:
    """Adds a batch at a time. What this costs, every job pays: see `bench/worker_meter.py`."""

    def __init__(self, metrics: Metrics, budgets: Budgets) -> None:
        self._metrics = metrics
        self._budgets = budgets

    def count(
        self,
        claims: list[Claim],
        settlements: list[Settlement],
        *,
        special: int,
        refused: Collection[Reference],
    ) -> None:
        """The engine settled these, but for the refused; `special` did not plainly succeed."""
        if special or refused:
            claims, settlements = self._plain(claims, settlements, refused)
        lines = set(map(_line, claims))
        if len(lines) == 1:
            # As a rule: what was submitted together ends together.
            self._succeeded(lines.pop(), claims, settlements)
            return
        held: dict[tuple[str, str], tuple[list[Claim], list[Settlement]]] = {
            line: ([], []) for line in lines
        }
        for claim, one in zip(claims, settlements, strict=True):
            mine, ends = held[claim.queue, claim.type]
            mine.append(claim)
            ends.append(one)
        for line, (mine, ends) in held.items():
            self._succeeded(line, mine, ends)

    def _plain(
        self,
        claims: list[Claim],
        settlements: list[Settlement],
        refused: Collection[Reference],
    ) -> tuple[list[Claim], list[Settlement]]:
        """Those that succeeded; the others are counted here."""
        mine: list[Claim] = []
        ends: list[Settlement] = []
        for claim, one in zip(claims, settlements, strict=True):
            if refused and (one.handle, one.delivery) in refused:
                continue
            if one.verb is not Verb.SUCCEED:
                self._ended(claim, one)
            else:
                mine.append(claim)
                ends.append(one)
        return mine, ends

    def _succeeded(
        self, line: tuple[str, str], claims: list[Claim], settlements: list[Settlement]
    ) -> None:
        metrics = self._metrics
        metrics.jobs_succeeded.add(len(claims), *line)
        self._budgets.succeeded(line[0], len(claims))
        # What succeeded began and ended.
        began = cast("list[int]", [one.started_at for one in settlements])
        ended = cast("list[int]", [one.finished_at for one in settlements])
        due = [one.run_at for one in claims]
        metrics.job_wait.observe_all([*map(sub, began, due)], *line)
        metrics.job_run.observe_all([*map(sub, ended, began)], *line, "succeeded")

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
