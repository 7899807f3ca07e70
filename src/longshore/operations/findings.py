"""What `longshore doctor` finds: the documents."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

__all__ = ["Diagnosis", "Finding", "Severity", "fine", "problem", "warning"]


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


def fine(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Severity.FINE, text)


def warning(check: str, text: str, advice: str) -> Finding:
    """It goes on, but not for ever or not as it should."""
    return Finding(check, Severity.WARNING, text, advice)


def problem(check: str, text: str, advice: str = "") -> Finding:
    """Something does not work."""
    return Finding(check, Severity.PROBLEM, text, advice)


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
