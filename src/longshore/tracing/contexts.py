"""The creation context of a job: a W3C traceparent as a job keeps it, and as spans use it."""

from collections.abc import Iterable, Sequence

from opentelemetry.trace import Link, SpanContext, TraceFlags

__all__ = ["is_told", "links", "parse", "written"]

_MOST_LINKS = 64
"""Of a span. A batch may have thousands of jobs; collectors take some links, not all."""


def parse(trace: str | None) -> SpanContext | None:
    """The context that the text names; None for none, or for one that means nothing."""
    if trace is None:
        return None
    try:
        version, trace_id, span_id, flags = trace.split("-")
        context = SpanContext(
            int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16))
        )
    except ValueError:
        return None
    return context if context.is_valid and version != "ff" else None


def written(context: SpanContext) -> str:
    """The context as text."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def is_told(traces: Iterable[str | None]) -> bool:
    """Whether an exchange with jobs of these contexts is worth a span.

    It is if one of them is sampled. Jobs without a context are the sampler's to decide upon;
    where all have one and none is sampled, whoever submitted them has decided.
    """
    return any(trace is None or _is_sampled(trace) for trace in traces)


def links(traces: Iterable[str | None]) -> Sequence[Link]:
    """To those of the contexts that are sampled, each once, or to the first of them."""
    found: dict[str, Link] = {}
    for trace in traces:
        if trace is None or trace in found or not _is_sampled(trace):
            continue
        context = parse(trace)
        if context is not None:
            found[trace] = Link(context)
        if len(found) == _MOST_LINKS:
            break
    return list(found.values())


def _is_sampled(trace: str) -> bool:
    return trace[-1:] in "13579bdf"
