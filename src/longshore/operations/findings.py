"""What `longshore doctor` finds: the documents."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

__all__ = ["Diagnosis", "Finding", "Severity"]


class Severity(StrEnum):
    """How good or bad a finding is."""

    FINE = "fine"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """What one check found, and what to do about it."""

    check: str
    health: Severity
    text: str
    advice: str = ""
    """Empty where there is nothing to do."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What all checks found, in the order in which it is worth reading."""

    health: Severity
    """The worst of them."""
    findings: list[Finding]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> "Diagnosis":
        """The diagnosis that these findings are."""
        worst = max((one.health for one in findings), key=list(Severity).index)
        return cls(worst, list(findings))
