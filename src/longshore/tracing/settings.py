"""What is said of tracing."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Relation", "TracingSettings"]


class Relation(StrEnum):
    """How the run of a job belongs to whoever submitted it."""

    LINK = "link"
    """A trace of its own, with a link to the submit."""
    CHILD = "child"
    """A part of the trace of the submit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """Spans of OpenTelemetry."""

    enabled: bool = False
    """Tell OpenTelemetry of submits, claims, runs and settlements; needs `longshore[otel]`."""
    relation: Relation = Relation.LINK
    """`link`: the run of a job is a trace of its own, linked to the submit; `child`: it is part
    of the trace of the submit."""
