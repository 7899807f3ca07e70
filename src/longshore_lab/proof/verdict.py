"""What a proof found: two counts that have to agree, and the promises."""

from pathlib import Path
from typing import Any

import msgspec

from longshore_lab.proof.evidence import QUESTIONS
from longshore_lab.proof.plan import Plan
from longshore_lab.proof.scratch import Scratch
from longshore_lab.proof.times import Times
from longshore_lab.verdict import Verdict

__all__ = ["Proof"]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of the checkers, and beside it what plain SQL counts in the same evidence."""

    plan: Plan
    store: Scratch
    verdict: Verdict
    counts: dict[str, int]
    times: Times
    folder: Path | None = None
    """Where the evidence was kept."""

    @property
    def forbidden(self) -> dict[str, int]:
        """Counts that have to be none and are not."""
        return {
            one.name: self.counts[one.name]
            for one in QUESTIONS
            if one.is_forbidden and self.counts[one.name]
        }

    @property
    def disagreements(self) -> dict[str, tuple[int, int]]:
        """Where SQL and the checkers differ: then one of them is wrong, and neither proves."""
        figures, findings = self.verdict.figures, self.verdict.findings
        told = {
            "accepted": figures.accepted,
            "succeeded": figures.succeeded,
            "dead": figures.dead,
            "lost": findings["lost"].violations,
            "unfinished": findings["unfinished"].violations,
            "re-deliveries": figures.redelivered,
            "retries": figures.retries,
            "late results refused": figures.stale_refused,
        }
        return {
            name: (self.counts[name], value)
            for name, value in told.items()
            if self.counts[name] != value
        }

    @property
    def holds(self) -> bool:
        """Every promise held, and both counts say so."""
        return self.verdict.holds and not self.forbidden and not self.disagreements

    def kept_in(self, folder: Path) -> "Proof":
        """The same, with its evidence there."""
        return msgspec.structs.replace(self, folder=folder)

    def document(self) -> dict[str, Any]:
        """As one object, for programs."""
        plan, figures, findings = self.plan, self.verdict.figures, self.verdict.findings
        load = {"in_flight": plan.in_flight} if plan.in_flight else {"rate": plan.rate}
        broken = {name: one.examples for name, one in findings.items() if not one.holds}
        return {
            "holds": self.holds,
            "store": self.store.words,
            "seed": plan.seed,
            "minutes": plan.minutes,
            **load,
            "workers": plan.workers,
            "planted": plan.sabotage,
            **{name.replace(" ", "_").replace("-", "_"): n for name, n in self.counts.items()},
            "kills": figures.kills,
            "stops": figures.stops,
            "terminations": figures.terminations,
            "unanswered": figures.unanswered,
            "past_lease": figures.past_lease,
            "jobs_per_s": round(figures.jobs_per_s, 1),
            "times": msgspec.to_builtins(self.times),
            "broken": {name: one.violations for name, one in findings.items() if not one.holds},
            "checked": {name: one.checked for name, one in findings.items()},
            "disagreements": self.disagreements,
            "examples": broken,
            "queries": {one.name: one.sql for one in QUESTIONS},
            "kept": None if self.folder is None else str(self.folder),
        }
